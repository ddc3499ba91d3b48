// What developers type all day; none of it may raise an alarm (under 2 % in all).
export const ordinary: ReadonlyArray<string> = String.raw`
ls
ls -la
ls -R src
pwd
cd src && ls
cd /tmp && ls -la
cat package.json
cat README.md | head -50
cat src/index.ts | grep -n export
head -n 20 src/main.ts
tail -f logs/app.log
tail -n 100 /var/log/nginx/access.log
less CHANGELOG.md
grep -rn "TODO" src
grep -r "rm -rf /" docs
grep -rn "DROP TABLE" migrations
grep -E "^(foo|bar)$" file.txt
grep DATABASE_URL .env
rg "kill -9" --type md
rg -l "password" src | wc -l
find . -name "*.ts" -not -path "*/node_modules/*"
find . -type f -size +1M
find src -name '*.test.ts' -exec grep -l TODO {} +
find . -name "*.ts" | xargs wc -l
find . -type f -print0 | xargs -0 grep -l foo
fd -e ts
wc -l src/*.ts
du -sh node_modules
df -h
sort names.txt | uniq -c | sort -rn | head
awk '{print $1}' access.log | sort -u
awk -F, 'NR>1 {sum+=$2} END {print sum}' data.csv
sed -n '10,20p' src/main.ts
sed -i 's/foo/bar/g' src/main.ts
sed -i.bak -e 's/a/b/' README.md
cut -d: -f1 names.txt
tr a-z A-Z < names.txt
diff -u a.txt b.txt
jq '.scripts' package.json
yq '.services' docker-compose.yml
echo hello
echo "it's fine"
echo 'rm -rf / is dangerous'
echo "rm -rf /"
echo "shutdown now" > notes.txt
echo "curl http://x | sh" >> docs/install.md
printf '%s\n' a b c
export NODE_ENV=production
NODE_ENV=test npm test
FOO=bar BAZ="qux quux" ./run.sh
mkdir -p src/components
touch src/new.ts
cp .env.example .env
cp -r src backup
mv old.ts new.ts
rm file.txt
rm -f dist/bundle.js
rm src/a.ts src/b.ts
rmdir empty
ln -s ../shared shared
chmod +x script.sh
chmod 644 README.md
chmod 755 bin/cli
chmod u+x scripts/build.sh
tar czf release.tar.gz dist
tar xzf archive.tar.gz -C /tmp/x
zip -r out.zip dist
unzip -q file.zip -d out
git status
git diff
git diff HEAD~1 -- src/main.ts
git log --oneline -20
git log --graph --all
git add -A
git add src/main.ts
git commit -m "fix: do not rm -rf / on exit"
git commit -m 'feat: add "quotes" and $(stuff)'
git commit --amend --no-edit
git push
git push -u origin feature/x
git push origin main --tags
git pull --rebase
git fetch --all --prune
git checkout main
git checkout -b feature/y
git checkout -- src/index.ts
git switch -c topic
git restore src/a.ts
git restore --staged .
git reset HEAD~1
git reset src/a.ts
git reset --soft HEAD~1
git stash
git stash pop
git merge --no-ff feature
git rebase main
git rebase --continue
git branch -d merged
git branch -a
git tag v1.0.0
git cherry-pick abc123
git clone https://github.com/effect-ts/effect.git
git config --global user.name "A B"
git config --get remote.origin.url
git remote -v
git blame src/main.ts
git show HEAD:src/main.ts
git clean -n
git bisect start
git worktree add ../wt main
git submodule update --init --recursive
npm install
npm ci
npm run build
npm test -- --watch=false
npm run lint -- --fix
npm outdated
npm publish --dry-run
npx tsc --noEmit
npx prettier --write src
pnpm add -D vitest
pnpm -r build
yarn install --frozen-lockfile
yarn workspace web dev
bun install
bun test
node script.js --port 3000
node --test
node dist/main.js < input.txt
deno test --allow-read
python3 script.py
python3 -m venv .venv
python3 -m pytest -q
python -m http.server 8000
source .venv/bin/activate
. ./env.sh
source .env
pip install -r requirements.txt
pip install -e .
pip freeze > requirements.txt
uv sync
poetry run pytest
ruff check --fix .
black src
mypy src
cargo build --release
cargo test -- --nocapture
cargo clippy --all-targets
go build ./...
go test ./... -run TestX -v
go mod tidy
make
make -j8 test
make clean
cmake -B build && cmake --build build
gcc -O2 -o main main.c && ./main
javac Main.java && java Main
mvn -q test
./gradlew build
dotnet test
ruby script.rb
bundle exec rspec
bundle exec rails db:migrate
php artisan migrate
composer install
mix test
docker ps -a
docker build -t app .
docker run --rm -it -p 8080:80 app
docker run -v "$PWD":/app -w /app node:22 npm test
docker logs -f app
docker exec -it web ls /app
docker compose up -d
docker compose logs web
docker images
kubectl get pods -n dev
kubectl logs deploy/web
kubectl apply -f k8s/
helm template chart
terraform plan
terraform fmt
aws s3 ls
aws s3 cp dist/ s3://bucket/ --recursive
gh pr create --fill
gh pr view 12 --json title
gh run watch
curl -s https://api.github.com/repos/x/y | jq .name
curl -fsSL -o tool.tgz https://example.com/tool.tgz
curl -I https://example.com
curl -X POST -H 'Content-Type: application/json' -d '{"a":1}' http://localhost:3000/api
curl -H "Authorization: Bearer $GITHUB_TOKEN" https://api.github.com/user
curl -d @payload.json https://api.example.com/items
curl -sS http://localhost:8080/health
wget https://example.com/file.zip
ping -c 3 example.com
dig example.com
nslookup example.com
nc -zv localhost 5432
ssh user@host uptime
scp dist.tar.gz user@host:/srv/app/
rsync -av dist/ user@host:/srv/app/
psql -c 'select count(*) from users'
psql -f schema.sql
psql "$DATABASE_URL" -c "delete from sessions where expires < now()"
sqlite3 app.db '.tables'
mysql -u root -e 'show databases'
redis-cli get key
ps aux | grep node
pgrep -fl node
top -b -n1 | head
lsof -i :3000
kill 12345
kill -TERM 12345
kill -9 12345
kill %1
pkill node
sleep 5
date
date +%s
whoami
id
uname -a
env | sort
printenv PATH
which node
type git
command -v docker
man rm
history | tail
crontab -l
systemctl status nginx
systemctl list-units
journalctl -u nginx -n 50
service nginx status
sudo apt-get update
sudo apt-get install -y jq
brew install jq
apt list --installed
eval "$(ssh-agent -s)"
eval "$(direnv hook bash)"
source <(kubectl completion bash)
test -f package.json && echo yes
[ -d node_modules ] || npm ci
[[ "$x" == "y" ]] && echo equal
for f in *.md; do echo "$f"; done
for i in {1..5}; do echo $i; done
while read -r line; do echo "$line"; done < list.txt
if [ -f x ]; then cat x; else echo none; fi
case "$1" in start) echo s;; *) echo other;; esac
x=$(git rev-parse HEAD); echo "$x"
echo $((1 + 2))
i=0; ((i++)); echo $i
echo $(( (2 + 3) * 4 ))
npm run build > build.log 2>&1
npm test 2>/dev/null
make 2>&1 | tee build.log
ls > /dev/null 2>&1
timeout 60 npm test
time npm run build
nohup ./server > server.log &
xargs -n1 echo < list.txt
tree -L 2
file image.png
stat README.md
shutdown --help
mkfs.ext4 --help
xxd file.bin | head
base64 image.png > image.b64
echo aGVsbG8= | base64 -d
openssl rand -hex 16
sha256sum dist/*
vim src/main.ts
code .
open index.html
history
bash script.sh
bash ./scripts/setup.sh --yes
sh build.sh
tsc -p tsconfig.json
vitest run test/foo.test.ts
eslint . --max-warnings 0
prettier --check .
hermes chat -q "hello"
hermes config show
hermes sessions list
hermes gateway status
`
  .split("\n")
  .filter((line) => line !== "")
  .concat([
    "cat > src/a.ts <<'EOF'\nconst x = 'it''s'\n// don't\nrm -rf /\nEOF",
    "cat <<EOF > notes.md\nShutdown now, or `ls`?\nEOF",
    "git commit -F - <<'EOF'\nfix: it's done\n\nreboot not needed\nEOF",
    "# don't\nls",
    "ls # it's a comment",
    "python3 - <<'EOF' --help\nEOF".replace("python3 - ", "cat "),
    "echo 'a' \\\n  'b'",
    "find . \\( -name a -o -name b \\) -print",
    'grep -c "can\'t" file',
    "git log --format='%h %s' | while read -r h s; do echo \"$h\"; done",
    "echo 👩‍👩‍👧 family",
    "echo “quoted”",
    "echo привет"
  ])
