/** Commands that a list of names took for reading, and that write, run or reach something: each has to be asked about. */
export const holes: ReadonlyArray<string> = [
  // Builtins of the shell that run or compute their words.
  "jobs -x touch x", "jobs -lx touch x", "wait -n -p 'a[$(touch x)]'", "wait -p 'a[$(touch x)]' 1", "wait 'a[$(touch x)]'",
  "printf -v 'a[$(touch x)]' y", "printf -v PATH .", "printf '%n' 'a[$(touch x)]'", "test -v 'a[$(touch x)]'", "[ -v 'a[$(touch x)]' ]",
  "[ -R 'a[$(touch x)]' ]", "[[ -v 'a[$(touch x)]' ]]", "[[ 'a[$(touch x)]' -eq 0 ]]", "[[ 0 -lt 'a[$(touch x)]' ]]",
  "read 'a[$(touch x)]'", "read -a 'a[$(touch x)]'", "read PATH", "read path", "unset 'a[$(touch x)]'", "declare 'a[$(touch x)]=1'",
  "echo $((a[$(touch x)]))", "echo $[a[1]]", "((x=1))", "let x=1", "hash -p ./ls ls", "alias ls=./x", "compgen -C ./x", "compgen -F f",
  "history -w x", "history -a", "ulimit -n 1", "umask 0", "shopt -s expand_aliases", "trap ./x EXIT", "set -o history", "set -- -x",
  "enable -f ./x.so x", "mapfile -C ./x -c 1", "command ./x", "builtin eval ./x", "exec ./x", "source x", ". x", "eval ls", "exit 'a[$(touch x)]'",
  "echo ${x@P}", "echo ${x:=y}", "echo ${#x}", "echo ${!x}", "ls {fd}>&1", "a[0]=1",
  // Beginnings of long flags.
  "git grep --open=./x y", "git grep --open-files-in-pager=./x y", "git grep -O./x y", "git diff --outp=x", "git log --outpu=x", "git log --ext", "sort --o=x", "sort --outp=x",
  "sort --compress-prog=./x", "date --se=2001-01-01", "date --s 2001-01-01", "rg --hostname-b=./x y", "rg --pr=./x y", "tree --outp", "pip list --lo x", "file --comp",
  "yq --in-place .", "yq -y --in-place . x", "yq -y --in-p . x", "yq --inplace . x",
  // Flags that write.
  "sort -o x y", "sort -ox y", "sort -uo x y", "sort y -o x", "sort --output=x y", "sort --output x y", "sort -T . y", "tree -o x", "tree -ao x",
  "tree -R -L 1 -H . -o x", "tree -R", "uniq a b", "uniq -c a b", "uniq -- a b", "xxd a b", "xxd -r a", "xxd -r -p a b", "xxd -ps a b", "iconv -o x y",
  "iconv -f utf8 y", "base64 -o x -i y", "base64 -i y --output x", "file -C -m x", "file -Cm x", "less -o x y", "less -Ox y", "less +!x y", "more +!x y",
  "sed -i s/a/b/ x", "sed -ni p x", "sed --in-place s/a/b/ x", "sed -n 'w x' y", "sed 's/a/b/w x' y", "sed 's/a/b/e' y", "sed '1e touch x' y", "sed e y",
  "sed -f x y", "sed -n 'p;w x' y", "sed -E 's/a/b/;s/c/d/w x' y", "awk '{ print > \"x\" }' y", "awk '{ print | \"sh\" }' y", "awk 'BEGIN { system(\"x\") }'",
  "awk 'BEGIN { \"x\" | getline }'", "awk -f x y", "gawk -i inplace 1 y", "gawk --include=x 1", "gawk -o x 1", "gawk -p 1 y", "gawk -l x 1", "gawk '@load \"x\"'",
  "gawk 1 /inet/tcp/0/a.example/80", "awk 1 /inet4/tcp/0/a.example/80", "gawk 'BEGIN { SYMTAB[\"AR\" \"GV\"] }'", "awk -v 'a=1' '{ print >> a }' y",
  "find . -delete", "find . -fprint x", "find . -fprintf x %p", "find . -fls x", "find . -fprint0 x", "find . -ok rm {} ;", "find . -okdir rm {} ;", "find . -execdir ls {} ;",
  "find . -exec ./x {} ;", "find . -exec sh -c x {} +", "find -files0-from x", "fd -x rm", "fd -X rm", "fd --exec rm", "fd --exec-batch rm", "fd a -Hx rm",
  "rg --pre ./x y", "rg --pre=./x y", "rg --hostname-bin=./x y", "rg -z y", "rg --search-zip y", "file -z x", "file --uncompress x", "file -p x",
  "diff -l a b", "diff --paginate a b", "unzip x.zip", "unzip -o x.zip", "unzip x.zip -l", "unzip -l x.zip -d y", "unzip -- x.zip", "unzip -q x.zip", "tar xf x.tar", "tar -tf x --to-command=./x",
  "tar tf x -I ./x", "tar tf host:x", "tar --list -f x", "tar cf x y",
  // Machine, services, packages.
  "date -s 2001-01-01", "date -us 2001-01-01", "date --set=2001-01-01", "date 010100002001", "date -u 010100002001", "date -- 010100002001", "date +%F 0101", "date -f x",
  "hostname x", "hostname -F x", "hostname -b x", "hostname -f", "env ./x", "env -S ./x", "env x=1 ls", "ss -K", "ss -r", "ss -tnr", "ss -D x", "dmesg -C", "dmesg -n 1",
  "mount x y", "ip link set x up", "systemctl stop x", "systemctl -H a status x", "systemctl status -M a", "systemctl --host=a status", "systemctl start x", "journalctl --vacuum-size=1",
  "journalctl --rotate", "journalctl --flush", "journalctl --sync", "journalctl -M a", "journalctl --cursor-file=x", "ifconfig x down",
  "pip list --log x", "pip list --log=x", "pip list --index-url http://a.example", "pip list -i http://a.example", "pip list --outdated", "pip list -o", "pip list --cache-dir x", "pip list --cert x",
  "pip --log x list", "pip install x", "pip freeze -r x", "npm ls --logs-dir=x", "npm ls --cache x", "npm ls --registry=http://a.example", "npm list --userconfig=x", "npm ls", "npm run x",
  "go list ./...", "cargo tree", "cargo metadata", "docker run x", "docker logs --x", "docker -H a ps", "docker ps --host=a", "dpkg -i x", "dpkg -l --admindir=x", "crontab x", "crontab -e", "crontab -r",
  "curl http://a.example", "wget http://a.example", "man -P ./x ls", "man -H./x ls", "which -i x", "tee x", "time -o x ls", "/usr/bin/time -o x ls", "xargs -a x rm", "yes", "split x",
  // git: its own flags, its words and its surroundings.
  "git -c core.pager=./x log", "git -c alias.x=!y x", "git --exec-path=. log", "git --config-env=core.pager=X log", "git -C .. log", "git --git-dir=x log", "git --work-tree=x status",
  "git -p log", "git --paginate log", "git diff --output=x", "git diff --output x", "git log --output=x", "git show --output=x", "git diff --ext-diff", "git show --textconv", "git log --textconv",
  "git cat-file --textconv x", "git cat-file --filters x", "git log --show-signature", "git log --format=%G?", "git branch x", "git branch -D x", "git branch -m x", "git branch -f x", "git branch -v x", "git branch -u x",
  "git branch --set-upstream-to=x", "git branch --edit-description", "git branch --unset-upstream", "git tag x", "git tag -d x", "git tag -a x", "git tag -v x", "git tag -f x", "git remote add x y", "git remote update", "git remote show x",
  "git remote -v update", "git stash", "git stash drop", "git stash pop", "git reflog expire --all", "git reflog delete x", "git worktree add x", "git worktree prune", "git config x.y z", "git config --edit", "git config -e",
  "git config --unset x.y", "git config --add x.y z", "git config --get x.y --edit", "git config --file=x --list", "git fetch", "git ls-remote", "git archive -o x HEAD", "git bundle create x", "git format-patch -1", "git diff --no-index a b",
  "git blame --contents x y", "git grep --no-index x", "git rev-parse --parseopt", "git submodule foreach x", "git bisect start", "git x", "git-x", "git help log", "git log --help",
  "GIT_PAGER=./x git log", "GIT_EXTERNAL_DIFF=./x git diff", "GIT_SSH_COMMAND=x git status", "GIT_CONFIG_COUNT=1 git log", "GIT_DIR=x git log", "PAGER=./x git log", "LESSOPEN='|./x' less y",
  // Surroundings.
  "ls > x", "ls >> x", "ls &> x", "ls >| x", "ls <> x", "cat < /dev/tcp/a.example/80", "ls 2> x", "PATH=. ls", "PATH=.; ls", "path=.; ls", "LD_PRELOAD=./x ls", "BASH_ENV=x bash -c ls", "TZ=/x date",
  "./ls", "bin/ls", "../ls", "~/ls", "/tmp/ls", "$x", "$x ls", "\"$x\"", "$(echo ls)", "`ls`", "l?", "ls $(touch x)", "cat $(./x)", "cat <(touch x)", "ls `touch x`", "ls; touch x", "ls && touch x", "ls | tee x", "ls | sh",
  "ls & touch x", "(touch x)", "{ touch x; }", "if ls; then touch x; fi", "for f in *; do touch $f; done", "while ls; do touch x; done", "bash -c 'touch x'", "sh -c 'ls > x'", "bash x", "sudo ls x; sudo touch x",
  "ls() { ./x; }; ls", "function ls { ./x; }; ls", "cat() { touch \"$@\"; }; cat x", "x=-oz; sort $x", "x=-oz; test -f y && x=a; sort $x", "read x; sort $x", "for x in -oz; do sort $x; done", "sort $x", "sort *",
  "echo x | xargs sort", "echo x | xargs touch", "ls | xargs -I{} sh -c {}", "ls | xargs rm", "find . | xargs sed -i s/a/b/", "timeout 5 touch x", "nice touch x", "command touch x", "stdbuf -o0 ./x", "timeout 5 ./ls", "time ./ls"
]

/** Commands that coding agents read with every day: none of them is asked about. */
export const everyday: ReadonlyArray<string> = [
  "ls", "ls -la", "ls -lah src", "ls -R src | head -50", "ls --color=never", "ls -1t", "ls *.ts", "ls src/*.ts | wc -l", "ls -la && pwd", "pwd", "cat package.json", "cat -n src/a.ts", "cat a b c", "cat src/*.ts",
  "head -5 x", "head -n 20 x", "head -c 100 x", "tail -5 x", "tail -n +20 x", "tail -f log.txt", "tail -n 100 x | grep error", "wc -l x", "wc -l src/*.ts | sort -n | tail -5", "nl -ba x", "tac x", "rev x",
  "cut -d: -f1 /etc/passwd", "cut -d ' ' -f 2 x", "tr a-z A-Z < x", "tr -d '\\n' < x", "paste a b", "comm -12 a b", "cmp a b", "diff a b", "diff -u a b", "diff -r a b", "diff -ru --exclude=node_modules a b",
  "diff <(sort a) <(sort b)", "od -c x", "hexdump -C x | head", "xxd x | head", "strings x", "stat x", "stat -c %s x", "which node", "which -a python3", "type ls", "command -v node", "whoami", "id -u", "uname -a", "uname -sr",
  "uptime", "df -h", "du -sh .", "du -sh * | sort -h", "du -h --max-depth=1", "free -m", "nproc", "basename a/b", "dirname a/b", "realpath x", "readlink -f x", "seq 1 10", "expr 1 + 2", "sleep 1", "md5sum x", "sha256sum x",
  "grep -rn foo src", "grep -rn --include=*.ts foo src", "grep -E 'a|b' x", "grep -c foo x", "grep -A3 -B3 foo x", "grep -il foo *.ts", "grep -v '^#' x", "grep -oP 'a\\d+' x", "cat x | grep -n foo | head -20", "egrep 'a|b' x", "fgrep a x",
  "rg foo", "rg -n foo src", "rg -l foo -g '*.ts'", "rg --files", "rg --files -g '*.md' | head", "rg -i -C 3 foo", "rg -t ts foo", "rg -U 'a\\nb'", "rg --json foo",
  "find . -name '*.ts'", "find . -type f -name '*.ts' -not -path '*/node_modules/*'", "find src -maxdepth 2 -type d", "find . -name a -o -name b", "find . -newer x", "find . -size +1M", "find . -type f | wc -l", "find . -name '*.ts' -exec grep -l foo {} +",
  "find . -name '*.ts' | xargs grep -l foo", "find . -name '*.ts' -print0 | xargs -0 wc -l", "find . -printf '%p\\n'", "fd foo", "fd -e ts", "fd -t f foo src", "tree -L 2", "tree -a -I node_modules", "tree -d",
  "sed -n 1,20p x", "sed -n '10,20p' x", "sed 's/a/b/' x", "sed 's/a/b/g' x | head", "sed -n '/a/,/b/p' x", "sed '/^#/d' x", "sed -E 's/(a)(b)/\\2\\1/' x", "awk '{print $1}' x", "awk -F: '{print $1}' x", "awk 'NR>=10 && NR<=20' x", "awk '{s+=$1} END {print s}' x",
  "sort x", "sort -u x", "sort -rn x | head", "sort -k2 -t, x", "sort x | uniq -c | sort -rn", "uniq -c x", "jq . x", "jq -r .name package.json", "jq '.a | keys' x", "cat x | jq .", "yq .a x.yml", "yq -r .a x.yml", "file x", "file -b x", "less x", "base64 x", "base64 -d x",
  "git status", "git status -s", "git status --porcelain", "git log", "git log --oneline -10", "git log -5", "git log --stat", "git log -p src", "git log --graph --oneline --all", "git log --author=x --since='2 weeks ago'", "git log -S foo", "git log main..HEAD", "git log -n 3 --format='%h %s'",
  "git diff", "git diff HEAD~1", "git diff --stat", "git diff --cached", "git diff --name-only main...HEAD", "git diff -- src/a.ts", "git diff -w", "git show", "git show HEAD:src/a.ts", "git show --stat HEAD", "git branch", "git branch -a", "git branch -vv", "git branch --show-current",
  "git branch --list 'a*'", "git branch --contains HEAD", "git tag", "git tag -l 'v*'", "git remote", "git remote -v", "git remote get-url origin", "git stash list", "git stash show -p", "git reflog", "git worktree list", "git config --get user.name", "git config --list", "git config user.email",
  "git ls-files", "git ls-files src | head", "git ls-tree -r HEAD --name-only", "git rev-parse HEAD", "git rev-parse --abbrev-ref HEAD", "git rev-parse --show-toplevel", "git grep -n foo", "git blame src/a.ts", "git blame -L 10,20 src/a.ts", "git describe --tags", "git cat-file -p HEAD", "git shortlog -sn HEAD", "git merge-base main HEAD",
  "git --no-pager log --oneline -5", "git --no-pager diff", "GIT_PAGER=cat git log -1", "git --version", "node --version", "node -v", "python3 --version", "python --version", "gcc --version", "pip list", "pip show x", "docker ps -a", "docker images", "docker logs --tail 50 x",
  "systemctl status x", "systemctl is-active x", "journalctl -u x -n 50 --no-pager", "dpkg -l", "crontab -l", "ps aux", "ps -ef", "ps -ef | grep node", "ps -o pid,comm", "pgrep -f node", "ss -tlnp", "date", "date +%F", "date -u +%Y-%m-%dT%H:%M:%SZ", "date -d yesterday", "hostname", "env", "env | sort", "printenv HOME", "cal",
  "tar tf x.tar", "tar -tzf x.tar.gz | head", "unzip -l x.zip", "echo hello", "echo $HOME", "echo \"$PATH\"", "printf '%s\\n' a b", "test -f x && echo yes", "[ -d src ] && ls src", "[[ -f x ]] || echo no", "true", ":", "cd src && ls", "cd src; cat a.ts | head -5", "ls 2>/dev/null", "ls 2>&1 | head", "cat x > /dev/null",
  "for f in a b; do echo $f; done", "for f in *.ts; do wc -l \"$f\"; done", "while read -r line; do echo \"$line\"; done < x", "if [ -f x ]; then cat x; else echo no; fi", "(cd src && ls)", "timeout 5 ls", "time ls", "nice ls", "/bin/ls", "/usr/bin/git status",
  "ls | xargs -n1 basename", "cat a | sort | uniq | wc -l", "x=a; cat $x.txt", "ls --help", "grep --version", "! grep -q a x", "ls & wait", "cat <<'EOF'\nhello\nEOF"
]
