// Deletions and resets that developers type all day inside of a working tree, all of them asked about where nothing
// covers them.

/** Those whose files their words name, or git does: an undo may cover them. */
export const nameable: ReadonlyArray<string> = String.raw`
rm -rf node_modules
rm -rf node_modules dist
rm -rf node_modules package-lock.json && npm install
rm -rf dist && npm run build
rm -rf ./build/*
rm -rf coverage .nyc_output
rm -rf .next .turbo
rm -r src/legacy
rm -rf src/generated && npm run codegen
rm -rf "my folder"
rm -rf test/__snapshots__
rm -rf target/debug
rm -rf venv && python3 -m venv venv
cd packages/core && rm -rf lib
cd web && rm -rf node_modules && npm ci
mkdir -p out && rm -rf out/*
npm run clean; rm -rf tmp
sh -c "rm -rf tmp"
rm -rf *.egg-info build
find . -name "*.orig" -delete
find . -name "*.pyc" -delete
find . -name __pycache__ -type d -exec rm -rf {} +
find src -name "*.js.map" -exec rm {} \;
find build -type f -delete
find . -name ".DS_Store" | xargs rm -f
find src -name "*.snap" -print0 | xargs -0 rm
find logs -name "*.log" | sort | xargs rm -f
git checkout -- .
git checkout .
git checkout -f
git restore .
git restore --worktree --staged .
git reset --hard
git reset --hard HEAD
git reset -q --hard
git clean -fd
git clean -fdx
git clean -f -d
git clean -fd src
git reset --hard && git clean -fd
rsync -a --delete src/ backup/
cp /dev/null app.log
`
  .trim()
  .split("\n")

/** Those that no undo covers, or whose files are known only when they run. */
export const unnameable: ReadonlyArray<string> = String.raw`
rm -rf "$BUILD_DIR"
for d in packages/*; do rm -rf "$d/dist"; done
git ls-files --others | xargs rm -rf
git reset --hard HEAD~1
git reset --hard origin/main
git -C ../other clean -fd
git stash drop
git branch -D old
git clean -ffd
shred -u key.txt
docker exec web rm -rf /app/cache
ssh host rm -rf build
fd -e tmp -x rm
rm -rf $(cat list.txt)
python3 -c "import shutil; shutil.rmtree('src'); shutil.rmtree(x)"
`
  .trim()
  .split("\n")
