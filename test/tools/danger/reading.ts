// Commands that only look, and commands that look like those and do more.

export const looks: ReadonlyArray<string> = String.raw`
ls -la src
ls 2>&1
ls *.ts
cat package.json | head -50
cat < notes.txt
cd src && ls
echo "$HOME" $PWD
printf '%s\n' a b
test -f x && echo yes
[ -d a ] || true
[[ $x == a* ]] && echo yes
for f in a b; do wc -l $f; done
while read -r line; do echo "$line"; done < notes.txt
if [ -f x ]; then cat x; else echo none; fi
true; echo $?
sleep 1 & wait
grep -rn TODO src | sort | uniq -c | sort -rn
grep -E '^(a|b)$' file.txt
grep KEY .env
rg -l password src | wc -l
find . -name '*.ts' -not -path '*/node_modules/*'
find . -type f -print0 | xargs -0 grep -l foo
find src -name '*.test.ts' -exec grep -l TODO {} +
sed -n '10,20p' src/main.ts
sed 's/a/b/g' x
awk '{print $1}' access.log
awk -F: -v n=2 'NR==n {print $2}' names.txt
git status
git status --short
git --no-pager log --oneline -5
git diff HEAD~1 -- src
git branch -a
git branch --list 'feature/*'
git tag -l 'v*'
git remote -v
git remote get-url origin
git stash list
git config --get user.name
git rev-parse HEAD
ps aux | grep node
ps -ef
ps -e -o pid,comm
docker ps -a
docker logs x
systemctl status nginx
date +%F
node --version
jq .name package.json
tar tzf a.tgz
time ls
timeout 5 cat x
/bin/ls
/usr/bin/env
x=5; echo $x
diff -u a b
`
  .split("\n")
  .filter((line) => line !== "")

/** One line each. */
const lines: ReadonlyArray<string> = String.raw`
cat <<< "$(rm x)"
echo "${"${"}x@P}"
echo ${"${"}!x}
echo ${"${"}x:y}
echo ${"${"}a[0]}
npm ls
[[ a -eq 'b[$(id)]' ]]
x='a[$(id)]'; echo $((x))
x='a[$(id)]'; echo $[x]
x='a[$(id)]'; [[ x -eq 1 ]]
test -v 'a[$(id)]'
[ -v 'a[$(id)]' ]
printf -v 'a[$(id)]' x
PATH=/tmp/e ls
PATH=/tmp/e; ls
path=(/tmp/e); ls
IFS=/; ls
BASH_ENV=/tmp/x; ls
export PATH=/tmp/e; ls
./ls
/tmp/ls
~/bin/ls
bin/cat x
LS
find . -exec rm {} +
find . -exec ls {} + -exec rm {} +
find . -ok ls {} +
find . -execdir ./x {} +
find . -delete
find . $X
find . -fprintf /etc/x a
find *
ls > x
ls >> x
ls &> x
ls >| x
ls 2> x
ls >& x
exec ls > x
exec 3> x
echo x | tee y
sort -o x y
sort --outp=x y
sort -uo x y
sort --compress-prog=./x y
sort *
sed -i s/a/b/ x
sed 's/a/b/w x' y
sed 's/a/b/e' y
sed -n 'w x' y
sed 'e id' y
sed '1e id' y
sed 'r /etc/x' y
sed -f x y
sed --in-place=.bak s/a/b/ x
sed -ni p x
sed -En 's/a/b/;w x' y
awk 'BEGIN{system("id")}'
awk 'BEGIN{"id"|getline}'
awk '{print > "x"}' y
awk -f x y
awk -i inplace '{print}' x
awk -v x=1 -f y z
gawk -l filefuncs x y
gawk --load=x y z
rg --pre ./x y
rg --pre=./x y
fd -x rm
fd --exec=rm
git -c core.pager=x log
git -c alias.x='!id' x
git --exec-path=/tmp log
git --git-dir=/tmp/e status
git -p log
git log --output=x
git diff --ext-diff
git grep -O id
git grep --open-files-in-pager=id x
git branch x
git branch -D x
git branch --delete x
git branch -f x y
git branch -l -m x y
git tag x
git tag -d x
git tag -l -d x
git stash
git stash pop
git config x y
git config --unset x
git config -e
git remote add x y
git remote update
git reflog expire
git worktree add x
git bisect run id
git submodule foreach id
git cat-file --textconv x
git archive --exec=id x
git push
env X=1 ls
env -S 'rm x'
ls | xargs rm
ls | xargs find
ls | xargs -p sh cat
ls | xargs 5 cat
timeout 5 7 cat x
nice 5 cat x
ls | xargs git
ls | xargs sed
ls | xargs -I{} sh -c '{}'
command rm x
time rm x
timeout 5 rm x
nice -n 5 rm x
less +!id x
less -o x y
man id
ls; rm x
ls && rm x
ls | sh
ls & rm x
$(echo rm) x
\rm x
r''m x
"rm" x
ls $(rm x)
ls ${"${"}x:-$(rm x)}
ls <(rm x)
cat < <(rm x)
ls() { rm x; }; ls
function ls { rm x; }; ls
alias ls=rm; ls x
trap 'rm x' EXIT
eval ls
. ./x
source x
set -o history
set -- a
read PATH
mapfile x
declare -n x=y
let x=1
((x=1))
x[0]=1
x['$(id)']=1
x=$(rm y)
for x in $(rm y); do ls; done
case $(rm y) in a) ls;; esac
tar tf x --to-command=id
tar tf x -I id
tar xf x
date -s 1
date 010101
hostname x
xxd x y
xxd -r x
uniq x y
yq -i . x
jq . ~/.ssh/id_rsa
cat ~/.ssh/id_rsa
cat ~/.aws/credentials
cat $HOME/.ssh/id_rsa
grep -r x ~
grep -r x /
cat .env
cat /proc/self/environ
cd /proc/self && cat environ
head -c 100 ~/.netrc
diff /dev/null ~/.ssh/id_rsa
base64 < ~/.ssh/id_rsa
cd ~/.hermes && cat config.yaml
cd ~/.ssh && cat id_rsa
pushd ~/.ssh; cat id_rsa
cat ~/.ss*/id_*
cat ~/.s?h/id_rsa
cat ~/*/id_rsa
cat < ~/.ss*/id_r*
cd ~/.aws && cat cred*
ls -d ~/.ssh/* | xargs cat
ls -a ../other | xargs cat
find ~ -newer x -exec cat {} +
find .. -type f -exec cat {} +
cd ~ && find . -type f -exec cat {} +
grep -r x ~/.config
rg x /home
cd ~ && grep -r x .
diff -r ~/.config a
xargs -a ~/.netrc echo
/usr/bin/time -o x ls
git -C /tmp/e show
cd /tmp/e && git show
git diff --no-index a b
systemctl status -H host
docker --host=tcp://127.0.0.1:9 ps
cat $X
docker run x
npm run x
npm --script-shell=./x ls
systemctl -H host status
systemctl stop x
./x --help
bash -c id --version
coproc rm x
if rm x; then ls; fi
while rm x; do ls; done
! rm x
echo a > /dev/tcp/127.0.0.1/9
cat < /dev/tcp/127.0.0.1/9
ls | cat > x
ps e
ps auxe
node x.js
npm test
make
mkdir x
touch x
`
  .split("\n")
  .filter((line) => line !== "")

export const doesMore: ReadonlyArray<string> = [
  ...lines,
  "ls \nrm x",
  "ls # a\nrm x",
  "cat <<X\n$(rm x)\nX",
  "ls\\\n; rm x"
]
