// Words with which programs that only seem to look do more, or may do more. They are texts for the judge: none of them
// is run.

/** One line each. */
export const seemsToLook: ReadonlyArray<string> = String.raw`
jobs -x rm x
jobs -x ./x %1
git grep --open=./x foo
git grep --op=./x foo
git grep -O./x foo
git log --outp=x
git diff --outp=x
git diff --ext
git show --textc
git log --show-signature
git log --format=%G?
git log --pretty=format:%h%x09%GK
git tag -v v1
git branch --edit-desc
git branch --set-up=x
git branch -u x
git branch -l x
git branch --contains x -m y
git config user.name x
git config edit
git config --get-all --edit
git config -f ~/.netrc --list
git config --file=/etc/x --get a.b
git -C /tmp status
git --config-env=core.pager=X log
git -c core.fsmonitor=./x status
git --exec-path=. status
git --work-tree=/tmp status
git help log
git log --help
git stash show --help
git remote show origin
git reflog delete HEAD@{1}
git ls-remote
git fetch
git log --remerge-diff
git rev-parse --parseopt
git cat-file --filters HEAD:x
git cat-file --batch-command
git blame --contents x y
git difftool
git show "$x"
git log $x
GIT_EXTERNAL_DIFF=./x git diff
GIT_PAGER=./x git log
PAGER=less git log
GIT_DIR=/tmp/x git status
GIT_CONFIG_COUNT=1 git status
LD_PRELOAD=./x.so ls
LC_ALL=../x ls
TZ=:/etc/x date
LESSOPEN='|./x %s' less y
sort --o=FILE
sort --o=x y
sort --outpu=x y
sort -ox y
sort -uox y
sort y -o x
sort -T . y
sort --temp=. y
sort --compress-program=./x y
sort --comp=./x y
sort --files0-from=x
sort $x
sort "$x"
for f in z -ofoo; do sort "$f" y; done
for f in *; do sort "$f" y; done
x="-oz"; test -f q && x=a; sort $x y
x=a; read x < f; sort $x y
x=rm; false && x=ls; $x y
false && x=ls; $x rm y
false && x=-d; date $x -s1
find . -not -name $x -path -delete
x=a; false; find . -not -name $x -path -delete
for PATH in /tmp/e; do ls; done
done
for LD_PRELOAD in ./x.so; do ls; done
select PATH in /tmp/e; do ls; done
ls {PATH}</dev/null; cat x
exec {PATH}</dev/null; cat x
ls() { sort "$@"; }; ls -o x y
function ls { sort "$@"; }; ls -o x y
ls() if true; then sort "$@"; fi; ls -o x y
grep() { sort "$@"; }; grep -o x y
date --se=1
date --set=1
date --s 1
date -s 1
date -us1
date -us 1
date -d now -s 1
date 010203042020
date --f=x
date -f x
date +%F 0102
hostname -F x
hostname -b x
hostname --file=x
hostname x
pip list --log FILE
pip list --log=FILE
pip list --lo FILE
pip list --index-url http://x
pip list --index-u=http://x
pip list -i http://x
pip list -o
pip list --outdated
pip list --python ./x
pip --python ./x list
pip list --cert x
pip list --proxy x
pip list --cache-dir x
pip show x --log=y
pip freeze
npm ls
npm ls --logs-dir=DIR
npm root
npm prefix --cache=x
yq -y --in-place . x
yq --in-place . x
yq -yi . x
yq --in-p . x
yq -i . x
yq --inplace . x
yq -s .a x
yq --split-exp .a x
yq -o -i . x
yq -o --inplace . x
wait -n -p 'a[$(id)]'
wait -np 'a[$(id)]' 1
wait -p x
wait $x
[ $x = 1 ]
[ "$x" "$y" ]
[ "$x" = 1 -a "$y" = 2 ]
test $x
test -R x
printf '%n' PATH
printf '12%n' PATH
printf '%-3n' PATH
printf '%ln' PATH
printf "$x" y
printf -v x y
printf -- "$x"
x='-v'; printf $x PATH a
read -a x
read 'a[$(id)]'
read -p x PATH
read path
IFS=/bin read x
set -o posix
set -x -- a
uniq log*
uniq a b
uniq -c a b
uniq a -c
xxd a*
xxd a b
xxd -r a
xxd -c 16 a b
tree -o x
tree -Po pat file
tree -R -H . -L 1
tree --output x
file -C -m x
file -Cm x
file -p x
file -z x
file --compile
file --pres x
diff -l a b
diff --pagi a b
rg --pre ./x y
rg --pre=./x y
rg --hostname-bin=./x y
rg -z x
rg --search-zip x
rg "$x"
fd -x rm
fd . -X rm
fd --exec-batch=rm
tree *
sed -n "$x" y
sed --in x y
sed --expr=w x
sed -i.bak s/a/b/ x
sed -f x y
sed -n '/[/s/]/w src/g' x
sed 's/a/b/w x;s/c/d/' y
sed 's/a/b/e;p' y
sed '$!w x' y
sed '1r /etc/passwd' y
sed p -i x
sed -n p --i x
awk '{print > "x"}' y
awk '$1 > 5 {print > "x"}' y
awk '/}/{print > "x"}' y
awk '{print | "sh"}' y
awk '{print "a" | "sh" || 1}' y
awk 'BEGIN{@f("id")}' y
awk '{print $1}' x -f y
awk "$x" y
find . -name x -exec sort + -o -print -exec cat {} \;
find . -exec awk {} \;
find . -exec sed {} \;
find . -exec awk '{print "{}"}' x \;
find . -exec sort {} -o x \;
find . -fprint x
find . -fprint0 x
find . -fls x
find . -okdir ls \;
find "$x" -name y
find . -name * -print
find -files0-from x
tar tf host:/x
tar tf x.tar --checkpoint-action=exec=id
tar -tf x --use-compress-program=./x
tar --list -I ./x -f y
journalctl --rotate
journalctl --vacuum-time=1s
journalctl --vac=1s
journalctl --cursor-file=x
journalctl --flush
journalctl -D /x
journalctl -m --sync
ss -K dst 127.0.0.1
ss -D x
ss -tK
ss -r
unzip x
lsblk --sysroot x
docker ps --host=tcp://x
docker -H tcp://x ps
docker inspect x --config y
docker top $x
systemctl show -H x
systemctl status --host=x
systemctl edit x
systemctl cat x
dpkg -l --root=x
dpkg -L x --pre-invoke=id
dpkg -i x
crontab -l x
crontab x
ps axe
ps -ef e
ps -E
ps axo environ
ps -o environ
ps eww 1
pgrep -F x --signal 9
cd $X && git status
cd "$(cat x)" && git log
cd - && git status
popd && git status
pushd +1 && git status
cd /p*c/self && cat environ
cd $X && cat environ
cd /proc/$X && ls
base64 -o x y
base64 -i x -o y
base64 -Do x y
less +x y
less -o x y
bat --pager=./x y
bat --paging=always y
bat cache --build
more +x y
foo --version
cargo --version
yarn --version
go version
./x --version
npm --version
pnpm -v
time -o x ls
/usr/bin/time -o x ls
/usr/bin/time ls
timeout 5 rm x
timeout --sig KILL 5 ls
timeout "$x" ls
nice -n 5 rm x
ionice -p 1
ionice -c 3 -p 1
stdbuf -o0 rm x
command rm x
command -p rm x
builtin jobs -x rm
xargs -a x cat
xargs -o cat
xargs --arg-file=x cat
ls | xargs sort
ls | xargs date
ls | xargs -I{} sh -c {}
ls | xargs -I{} awk '{}'
ls | xargs $x
echo $(rm x)
cat <> x
ls > x
ls 2> err
ls &> all
ls > "$x"
ls >&x
cat < /dev/tcp/127.0.0.1/9
env -i ls
env A=b
env -S 'ls'
type -x
hash -p ./x ls
history -w x
compgen -C ./x
enable -f ./x.so y
ulimit -c 0
umask 0
shopt -s extdebug
trap 'rm x' EXIT
declare x=1
unset PATH
export x=1
alias ls=rm
dirs -c
popd
dmesg -C
mount /x
ip link set x down
less $x
man ls
jq -f /proc/self/environ
jq . .env
git show HEAD:.env
git show main:config/.env
grep x -f.netrc
echo $(< ~/.ss?/id_rsa)
cat --files0-from=x
ls --foo
cat -i x
wc --files0-from ~/.netrc x; rm y
uname --foo
id -Zx
kill --help
reboot --help
x=a; false && x=b; [ $x 'a[$(id)]' ]
x=-v; false && x=a; [ $x 'a[$(id)]' ]
x=~/.ssh/id_rsa; false && x=a; cat $x
x=a; read x < f; cat $x
for f in ~/.ssh/id_rsa a; do cat "$f"; done
for f in a ~/.ssh/id_rsa; do cat "$f"; done
for f in ~/.ss*/id*; do cat "$f"; done
cd ~/.aws; for f in c*; do cat "$f"; done
false && x=q; echo | xargs -I $x ls rm y
x=q; false && x=q; echo | xargs -I $x ls rm y
false && x=p; sed -e $x 's/a/b/w f'
x=v; git branch --sort $x --merged foo
x=evil; false && x=.; cd $x && git status
cd -P "$x" && git status
f=src/x.ts; sort $f
`
  .split("\n")
  .filter((line) => line !== "")
