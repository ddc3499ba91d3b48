// Which commands are known to only read: exact flags of named programs, and nothing that a program or a shell makes of less.
import { assert, describe, it } from "@effect/vitest"
import { judge } from "../../../src/tool/danger/Danger.ts"

const onlyReads = (line: string): boolean => judge(line).onlyReads

describe("commands that seem to read", () => {
  const lines = [
    "jobs -x touch x", "jobs -x rm -rf .", "wait -n -p 'a[$(touch x)]'", "wait 'a[$(touch x)]'", "exit 'a[$(touch x)]'",
    "git grep --open=./x y", "git grep --open-files-in-pager=./x y", "git grep -O./x y", "git log --outp=x", "git diff --output=x",
    "git diff --ext-diff", "git diff --ext", "git show --textconv", "git log --show-signature", "git log --format=%G?", "git branch new", "git tag v1",
    "git branch -D old", "git config user.name x", "git config --add a.b c", "git stash", "git remote add o u", "git -c core.pager=./x log", "git cat-file --textconv HEAD:x",
    "sort --o=FILE x", "sort --outp=FILE x", "sort -oFILE x", "sort -uo FILE x", "sort --compress=./x y", "sort --compress-program=./x y", "sort -T /x y", "sort *",
    "date --se=2020-01-01", "date --set=2020-01-01", "date -s 2020-01-01", "date 010100002020", "date -us x",
    "pip list --log FILE", "pip list --index-url http://host", "pip list -i http://host", "pip list --outdated", "pip3 freeze --log=x",
    "npm ls --logs-dir=DIR", "npm ls --logs=DIR", "npm ls --prefix /x", "npm ls --script-shell=./x", "npm ls --userconfig=x",
    "yq -y --in-place . f", "yq --inpl . f", "yq -i . f", "yq -yi . f", "yq -s .a f", "yq --split-exp .a f",
    "diff -l a b", "diff --paginate a b", "tree -o x", "tree -R -H . -L 1", "rg --pre ./x y", "rg --pre=./x y", "rg -z x", "rg --hostname-bin=./x y",
    "fd -x rm", "fd -X rm", "find . -delete", "find . -fprint x", "find . -fprintf x y", "find . -fls x", "find . -exec rm {} +", "find . -ok ls {} ;",
    "find . -execdir ls {} ;", "find . -unknown", "file -C -m x", "file -p x", "file --compi", "file -z x", "uniq a b", "uniq -c a b", "xxd a b", "xxd -r a", "xxd -ps in out", "xxd -p in out",
    "printf -v x y", "printf -v 'a[$(touch x)]' y", "printf $X", "test -v 'a[$(touch x)]'", "[ -v x ]", "[ $(cat f) ]", "[ $x = y ]",
    "[[ 'a[$(touch x)]' -eq 1 ]]", "echo $((a[1]))", "strings --target=x y", "hostname new", "hostname -F x", "env FOO=1 ls x; env sh", "env -i",
    "time -o x ls", "time --output=x ls", "time --outp=x ls", "xargs -a f cat", "ionice -c2 -p 1", "unzip x", "unzip -l -d x y", "dpkg -i x", "dpkg -l --root=/x",
    "crontab f", "crontab -r", "tar -tf host:x", "tar -xf x", "tar -tf x --to-command=y", "systemctl -H host status", "systemctl status -H host", "systemctl --roo=/x status", "systemctl restart x",
    "docker -H tcp://host ps", "docker rm x", "docker inspect --form=x -H y", "df --sync", "pgrep -L -F x",
    "GIT_PAGER=./x git log", "LD_PRELOAD=./x.so ls", "PATH=. ls", "path=. ls", "./ls", "sub/ls", "ls() { rm x; }; ls", "alias ls='rm x'; ls", "cat x > y", "ls `touch x`",
    "sed -i s/a/b/ f", "sed p f -i", "sed -n '/a/w x' f", "sed 's/a/b/e' f", "sed --in-pl s/a/b/ f", "awk '{ print > \"x\" }' f", "awk 'BEGIN { system(\"x\") }'", "awk -i inplace 1 f",
    "history -w x", "compgen -C ./x", "hash -p ./x ls", "enable -f ./x y", "trap 'touch x' EXIT", "export PATH=.", "less +!touch x", "bat --pager=./x y",
    "jq -n --unknown", "tail --fol=x y", "head --by=1 y", "grep --exc=x y z", "cat ~/.ssh/id_rsa", "grep -f ~/.ssh/id_rsa x", "grep --file=/root/.ssh/id_rsa x", "jq -f ~/.aws/credentials ."
  ]
  for (const line of lines) it(`${line} is asked about`, () => assert.isFalse(onlyReads(line)))
})

/** Scripts for a shell that does more than read, or that is not read as it would be. */
const asked: ReadonlyArray<string> = [
  "bash -c 'touch x'", "bash -c 'ls > x'", "bash -c 'ls; rm x'", "bash -c 'ls' > x", "bash -c 'ls | sh'", "bash -c 'eval ls'",
  "bash -c 'source x'", "bash -c 'export PATH=.; ls'", "bash -c 'ls() { ./x; }; ls'", "bash -c $'ls\\ntouch x'",
  // Other words than the flags and one script.
  "bash x", "bash -c", "bash -c -x", "bash -c -o pipefail ls", "bash -c ls x", "bash -c 'cat $1' x ~/.ssh/id_rsa", "bash '-e -c' ls",
  "bash -lc ls", "bash -ic ls", "bash --rcfile x -c ls", "bash --init-file x -ic ls", "bash -c ls -- x", "bash -O extglob -c ls",
  // Words that only the machine knows.
  "bash -c \"$x\"", "bash -c '$x'", "bash -c \"ls $x\"", "bash -c \"$(cat x)\"", "bash -c `cat x`", "bash -c 'ls `touch x`'", "bash -c l*",
  "bash -c 'read x; $x'", "x=ls; bash -c $x", "x=a; bash -c 'sort $x'", "bash -c 'x=-oz; sort $x'", "bash -c '(''(a))'", "bash -c 'a[''b]=1'",
  // Not readable, or shells in shells.
  "bash -c 'ls \"'", "bash -c 'bash -c ls'", "bash -c 'sh x'", "echo 'touch x' | bash", "echo 'touch x' | bash -c sh",
  // Words that the plain shell of a system reads otherwise.
  "sh -c \"echo \\$'a\\\\'; touch x #'\"", "dash -c \"echo \\$'a\\\\'; touch x #'\"", "sh -c '[[ a > b ]]'", "sh -c 'ls &>/dev/null'",
  "zsh -c ls", "fish -c ls", "pwsh -c ls", "csh -c ls",
  // Surroundings.
  "BASH_ENV=x bash -c ls", "ENV=x sh -c ls", "PATH=. bash -c ls", "./bash -c ls", "sudo bash -c ls", "env bash -c ls", "bash() { ./x; }; bash -c ls",
  "ls | xargs sh -c ls", "ls | xargs -I X sh -c X", "find . -exec sh -c {} \\;", "find . -exec sh -c 'cat {}' \\;",
  "cd vendor && bash -c 'git log'", "bash -c 'cd vendor && git log'", "bash -c 'cat ~/.ssh/id_rsa'", "cd \"$x\" && bash -c 'cat a'"
]

/** Scripts for a shell that only read. */
const unasked: ReadonlyArray<string> = [
  "bash -c 'ls'", "sh -c 'ls'", "bash -c \"ls -la\"", "sh -c 'ls -la | head -5'", "/bin/bash -c ls", "/bin/sh -c 'pwd && ls'", "bash -ec 'cat a; wc -l b'",
  "bash -euo pipefail -c 'git log -1 | cat'", "bash -eu -o pipefail -c 'grep -rn foo src | head'", "bash -c 'git status && git diff'",
  "bash -c 'for f in *.ts; do wc -l \"$f\"; done'", "sh -c 'if [ -f a ]; then cat a; fi'", "bash -c '[[ -f a ]] && cat a'",
  "bash -c 'diff <(sort a) <(sort b)'", "bash -c 'ls' 2>/dev/null | head", "timeout 5 bash -c 'ls'", "cd src && bash -c 'ls'", "echo a | bash -c 'cat'",
  "bash -c 'cd src && ls'", "bash -c 'echo \"$HOME\"'", "bash -c 'n=5; head -n $n a'", "ls && sh -c 'wc -l a'"
]

describe("shells that run a script", () => {
  for (const line of asked) it(`${line} is asked about`, () => assert.isFalse(onlyReads(line)))
  for (const line of unasked) it(`${line} is not asked about`, () => assert.isTrue(onlyReads(line)))
})

describe("words that look like a script, and are none", () => {
  it("formats of stat are no commands", () => {
    const lines = [
      "stat -c '%s' file", "stat -c '%s %n' file", "stat --format='%s %n' file", "stat -c \"%y %n\" src/*.ts", "stat -f '%z %N' file",
      "stat --printf='%s %n\\n' a b", "stat -c '%a %U:%G' a | head"
    ]
    assert.deepStrictEqual(lines.filter((line) => !onlyReads(line)), [])
    const more = ["stat -c '%s %n' $(touch x)", "stat -c '%s %n' a > b", "stat --unknown a", "./stat -c '%s %n' a", "stat -c '%s %n' a; touch b"]
    assert.deepStrictEqual(more.filter(onlyReads), [])
  })
})

describe("flags that a trace found to do more", () => {
  it("asks about a host that ss looks for, and about what locale unpacks", () => {
    const more = ["ss out", "ss -tn dst host.example", "ss -tn 'dst host.example'", "ss -tn dead.beef", "ss -tn src [::1]", "locale -m", "locale --charmaps"]
    assert.deepStrictEqual(more.filter(onlyReads), [])
    const lines = ["ss -tlnp", "ss -tn state established", "ss -tlnp '( sport = :3000 )'", "ss -tln sport = :3000", "ss -tn dst 10.0.0.1:443", "locale -a"]
    assert.deepStrictEqual(lines.filter((line) => !onlyReads(line)), [])
  })
})

describe("commands that read", () => {
  const lines = [
    "ls", "ls -la", "ls -lah src", "ls -1 --color=never *.ts", "ls -R src | head -50", "ls -lt --time-style=long-iso", "pwd", "cat a.ts", "cat -n src/index.ts", "cat a b c",
    "head -20 a.ts", "head -n 5 a", "head -n5 a", "head -c 100 a", "tail -n 100 log", "tail -50 log", "tail -f log", "wc -l a", "find . -name '*.ts' | wc -l", "nl -ba a",
    "grep -rn 'foo bar' src", "grep -rn --include='*.ts' foo .", "grep -E 'a|b' a", "grep -c x a", "grep -il todo a b", "grep -A3 -B 2 x a", "grep -v '^#' a", "grep --exclude-dir=node_modules -r x .",
    "rg foo", "rg -n foo src", "rg -l 'foo' -g '*.ts'", "rg --files", "rg -uu foo", "rg -i --type ts foo", "rg -C 3 foo src | head -40", "rg --json x", "rg -tpy -A2 foo", "rg --hidden --glob '!.git' foo",
    "git status", "git status -s", "git status --short --branch", "git status --porcelain=v1 -uall", "git log", "git log --oneline -10", "git log -n 5 --stat", "git log -p -- src/a.ts", "git log --since='2 days ago' --author=me",
    "git log --graph --all --decorate --oneline", "git log -S foo --oneline", "git log main..HEAD", "git --no-pager log -3", "git diff", "git diff HEAD~1", "git diff --stat", "git diff --cached", "git diff --name-only main...HEAD",
    "git diff -U10 -- a.ts", "git diff -w", "git show", "git show HEAD:src/a.ts", "git show --stat HEAD", "git show --name-status abc123", "git blame a.ts", "git blame -L 10,20 a.ts", "git branch", "git branch -a", "git branch -vv", "git branch --show-current",
    "git branch --contains HEAD", "git branch --list 'f*'", "git tag", "git tag -l 'v*'", "git tag --sort=-creatordate", "git remote -v", "git remote get-url origin", "git stash list", "git stash show -p", "git reflog", "git rev-parse HEAD", "git rev-parse --show-toplevel",
    "git rev-parse --abbrev-ref HEAD", "git ls-files", "git ls-files --others --exclude-standard", "git ls-tree -r HEAD --name-only", "git describe --tags --always", "git config --get user.name", "git config -l", "git config --list --show-origin", "git merge-base main HEAD",
    "git rev-list --count HEAD", "git shortlog -sn", "git cat-file -p HEAD", "git for-each-ref --format='%(refname)'", "git check-ignore -v a", "git grep -n foo", "git grep -l foo -- '*.ts'", "git worktree list", "git whatchanged -3", "git version", "git show-ref --heads",
    "find . -name '*.ts'", "find . -type f -not -path './node_modules/*'", "find src -maxdepth 2 -type d", "find . -name a -o -name b", "find . -newer a -print0", "find . -size +1M -printf '%p %s\\n'", "find . -name '*.md' -exec wc -l {} +", "find . \\( -name a -prune \\) -o -print",
    "sed -n '1,20p' a.ts", "sed -n 10,20p a", "sed -n '/foo/,/bar/p' a", "sed 's/a/b/g' a", "awk '{ print $1 }' a", "awk -F: '{ print $2 }' a", "cut -d: -f1 a", "tr -d '\\n' < a", "sort a", "sort -u a", "sort -k2 -n a", "sort -t, -k1,1 a", "sort a | uniq -c | sort -rn",
    "uniq -c a", "diff a b", "diff -u a b", "diff -rq a b", "cmp a b", "comm -12 a b", "stat a", "stat -c %s a", "file a", "file -b --mime-type a", "du -sh .", "du -sh *", "du -d1 -h", "df -h", "tree", "tree -L 2", "tree -a -I node_modules", "which node", "type ls", "command -v node",
    "whoami", "id", "uname -a", "uptime", "free -h", "nproc", "date", "date +%s", "date -u +%FT%TZ", "date -d yesterday +%F", "env", "printenv PATH", "echo hello", "echo \"$HOME\"", "printf '%s\\n' a b", "basename a/b", "dirname a/b", "realpath a", "readlink -f a",
    "jq . a.json", "jq -r '.a[]' a.json", "jq --arg x 1 '.a == $x' a.json", "jq -c keys a", "yq .a f.yaml", "yq -r .a f.yaml", "md5sum a", "sha256sum a b", "xxd a", "xxd -l 64 a", "od -c a", "hexdump -C a | head", "strings a", "base64 a", "base64 -d a",
    "ps aux", "ps -ef", "pgrep -f node", "seq 1 10", "sleep 1", "true", "test -f a", "[ -f a ] && echo yes", "[[ -d src ]] && ls src", "for f in *.ts; do wc -l \"$f\"; done", "cd src && ls", "cat a | grep x | wc -l", "time ls", "timeout 5 cat a", "xargs -0 ls",
    "pip list", "pip show x", "pip list --format=json", "docker ps -a", "docker images", "docker logs --tail 50 x", "docker inspect x", "systemctl status nginx", "systemctl is-active x", "dpkg -l", "dpkg -L bash",
    "crontab -l", "tar -tf a.tar", "tar tzf a.tgz", "unzip -l a.zip", "node --version", "less a", "more a", "column -t a", "lscpu", "locale", "cat a 2>/dev/null", "ls -la 2>&1 | head", "cat <<'E'\nx\nE"
  ]
  it("are not asked about", () => {
    assert.isAbove(lines.length, 180)
    assert.deepStrictEqual(lines.filter((line) => !onlyReads(line)), [])
  })
})
