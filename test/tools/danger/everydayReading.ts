// Commands with which coding agents look at a project.

/** One line each. */
export const everydayReading: ReadonlyArray<string> = String.raw`
ls
ls -la
ls -lah src test
ls -1 src | head -20
ls -R src | head
ls -d */
ls --color=never
ls -lt --time-style=full-iso
pwd
cd src && ls -la
cd packages/core && cat package.json
cat README.md
cat -n src/index.ts
cat src/*.ts | wc -l
cat package.json tsconfig.json
cat package.json | jq '.scripts'
head -50 README.md
head -n 100 src/main.ts
head -c 200 x.bin
tail -20 log.txt
tail -n +50 src/main.ts | head -30
tail -f server.log
wc -l src/*.ts
wc -l < README.md
find . -name '*.ts' -not -path './node_modules/*' | head -50
find . -name '*.ts' -not -path '*/node_modules/*' -exec wc -l {} +
find . -type f -name "*.py" | xargs wc -l
find . -type d -name node_modules -prune -o -name '*.ts' -print
find src -type f \( -name '*.ts' -o -name '*.tsx' \) | sort
find . -maxdepth 2 -type f
find . -newer package.json -type f
find . -size +1M -exec ls -lh {} \;
find . -type f -printf '%s %p\n' | sort -rn | head
find . -type f -print0 | xargs -0 grep -l foo
find . -mtime -1 -type f
grep -rn "TODO" src
grep -rn --include='*.ts' "foo" .
grep -rn --include=*.ts --exclude-dir=node_modules "foo" src
grep -E "^(import|export)" src/index.ts
grep -c "it(" test/a.test.ts
grep -v '^#' config.ini
grep -A 5 -B 2 "function main" src/main.ts
grep -nA5 foo src/x.ts
grep -rl "useState" src | wc -l
grep -o 'v[0-9]*' x | sort -u
grep -i error server.log | tail -5
grep -P '\d+' x
grep -w foo x
grep -rIn foo . 2>/dev/null | head
egrep "a|b" x
rg "foo"
rg -n "foo" src
rg -n --type ts "foo|bar"
rg -l "foo" -g '*.ts'
rg -i -C 3 "foo" src/
rg --files
rg --files -g '*.md' | head
rg -uu foo
rg -e '->' src
rg -o --no-filename '[a-z]+' x | sort | uniq -c | sort -rn | head
rg -nF 'a(b' src
rg --json foo
rg -c foo
git status
git status -s
git status --short --branch
git status --porcelain
git status --porcelain=v2 -uno
git log
git log --oneline -10
git log --oneline --graph --all --decorate -20
git log -p -1
git log -3 --stat
git log -n 5 --pretty=format:'%h %an %s'
git log --since="2 weeks ago" --author=me
git log --follow -- src/x.ts
git log -S 'foo' --oneline
git log main..HEAD --oneline
git log -L10,20:src/x.ts
git diff
git diff --stat
git diff --cached
git diff HEAD~1
git diff HEAD~3..HEAD -- src
git diff main...feature --name-only
git diff --name-status origin/main
git diff -U10 src/x.ts
git diff --staged --numstat
git --no-pager diff
git show
git show HEAD
git show HEAD:src/index.ts
git show --stat HEAD~2
git show --name-only --oneline HEAD
git branch
git branch -a
git branch -vv
git branch --show-current
git branch --contains abc123
git branch --merged main
git branch -r --sort=-committerdate
git remote -v
git rev-parse HEAD
git rev-parse --abbrev-ref HEAD
git rev-parse --show-toplevel
git rev-parse --short HEAD
git ls-files
git ls-files src | wc -l
git ls-files --others --exclude-standard
git ls-tree -r HEAD --name-only
git blame src/x.ts
git blame -L 10,20 src/x.ts
git stash list
git stash show -p
git tag
git tag -l
git tag --sort=-creatordate | head -5
git describe --tags --always
git config --get remote.origin.url
git config user.name
git config --list
git reflog
git reflog -10
git shortlog -sn
git merge-base main HEAD
git grep -n foo
git grep -n "foo" -- '*.ts'
git cat-file -p HEAD
git for-each-ref --sort=-committerdate refs/heads
git worktree list
git log --oneline | head -5
git diff --check
git log --all --oneline --grep="fix"
GIT_PAGER=cat git log -5
GIT_OPTIONAL_LOCKS=0 git status
sed -n '1,20p' src/main.ts
sed -n '100,200p' src/main.ts | head
sed -n '/start/,/end/p' x
sed -n '5p' x
sed -n 10,20p x
sed 's/foo/bar/g' x
sed -E 's/[0-9]+/N/g' x
sed -n '1,5p;10,15p;20,25p' x
sed 's/\./-/g' x | head
sed -e 's/a/b/' -e 's/c/d/' x
sed '/^$/d' x
sed -n '$p' x
sed '1d' x
sed 's|/usr|/opt|g' x
awk '{print $1}' x
awk -F, '{print $2}' x.csv
awk -F: '{print $1}' /etc/passwd
awk 'NR>=10 && NR<=20' x
awk '$3 > 100' x
awk '$3 > 100 {print $1}' x
awk 'NR==5' x
awk '{sum += $1} END {print sum}' x
awk '/foo/ || /bar/' x
awk 'length > 80' x
awk 'END{print NR}' x
jq . package.json
jq -r '.version' package.json
jq '.dependencies | keys' package.json
jq -c '.[] | select(.a == 1)' x.json
jq -r --arg k v '.[$k]' x.json
jq -n '1+1'
yq '.a' x.yml
yq -r '.a.b' x.yml
sort x
sort -u x
sort -k2,2nr x
sort -t, -k1 x
sort -rn | head
uniq -c
uniq x
cut -d: -f1 /etc/passwd
cut -d ' ' -f 2-
tr -d '\n'
tr 'a-z' 'A-Z'
tr -s ' '
column -t
column -t -s,
diff a b
diff -u a b
diff -r src lib
diff -rq a b
diff <(sort a) <(sort b)
comm -12 a b
comm -23 <(sort a) <(sort b)
cmp a b
file x
file -b --mime-type x
stat x
stat -c '%s' x
du -sh .
du -sh * | sort -h
du -h --max-depth=1
df -h
tree -L 2
tree -L 2 -I 'node_modules|dist'
tree -a -L 3 --dirsfirst
which node
which -a python3
type node
command -v node
command -v rg >/dev/null && echo yes
whereis gcc
node --version
node -v
python3 --version
python --version
git --version
gcc --version
java --version
uname -a
whoami
id
hostname
date
date +%Y-%m-%d
date -u +%FT%TZ
date -d yesterday +%F
date -d '-1 day' +%F
date '+%Y-%m-%d %H:%M:%S'
env | sort
env | grep NODE
printenv PATH
echo $PATH
echo "hello"
echo -n foo | base64
echo foo | base64 -d
printf '%s\n' foo bar
basename src/x.ts .ts
dirname src/x.ts
realpath .
readlink -f x
seq 1 10
sleep 1
true
test -f x && echo yes
test -d node_modules || echo missing
[ -f x ] && echo yes || echo no
[ -z "$X" ] && echo empty
[[ -f x ]] && cat x
if [ -f x ]; then cat x; fi
for f in src/*.ts; do echo "$f"; done
for f in src/*.ts; do wc -l "$f"; done
for f in a.ts b.ts; do echo "== $f"; sed -n '1,20p' "$f"; done
for i in 1 2 3; do echo $i; done
while read -r line; do echo "$line"; done < x
while IFS= read -r line; do echo "$line"; done < x
ps aux
ps aux | grep node
ps -ef | head
ps -p 123 -o pid,cmd
ps aux --sort=-%mem | head
pgrep -fl node
ss -tlnp
free -h
uptime
nproc
lscpu
lsblk
docker ps
docker ps -a
docker images
docker logs --tail 50 web
docker inspect web
systemctl status nginx
systemctl is-active nginx
journalctl -u nginx -n 50 --no-pager
pip list
pip show requests
pip3 list
dpkg -l
dpkg -l | grep ssl
dpkg -L bash
md5sum x
sha256sum x
sha256sum -c SHA256SUMS
xxd x | head
xxd -l 64 x
hexdump -C x | head
od -c x | head
strings x | head
nl -ba x
tac x
rev x
fold -w 80 x
paste -d, a b
tar tzf x.tgz
tar -tvf x.tar
tar tf x.tar | head
unzip -l x.zip
time ls
timeout 10 grep -r foo src
LC_ALL=C sort x
ls | xargs -n1 echo
ls *.ts | xargs wc -l
cat x 2>/dev/null || true
ls 2>&1 | head
ls > /dev/null
(cd src && ls)
{ echo a; cat b; } | sort
cd "$(git rev-parse --show-toplevel)" && git status
less x
bat -p x
fd '\.ts$'
fd -e ts -H
fd -t f foo src
exit 0
sleep 1; echo done
ls -la; git status; git log -1
cat src/a.ts; echo ---; cat src/b.ts
echo "=== a ==="; cat a
git diff HEAD -- . ':(exclude)package-lock.json'
git log --format=%H -1
git log --pretty=oneline --abbrev-commit
git show abc123 --stat
git diff --no-color --word-diff
git status --ignored
git branch --list 'feat/*'
sort --version
rg --version
ls --help
for f in src/*.ts; do wc -l $f; done
for f in a b; do head -5 "$f"; done
n=5; head -n $n x
dir=src; ls $dir; find "$dir" -name '*.ts'
find $HOME/x -name y
for f in ./*.ts; do wc -l "$f"; done
`
  .split("\n")
  .filter((line) => line !== "")
