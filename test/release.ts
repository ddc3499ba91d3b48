// `npm run release -- TAG OWNER/NAME`: writes the addresses of the repository into package.json before it is published,
// and prints the entry of the changelog. It changes nothing and ends with 1 if the release is not ready.
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { prepareRelease } from "./support/releases.ts"
import { root } from "./support/sources.ts"

const [tag = "", repository = ""] = process.argv.slice(2)
const release = prepareRelease({
  tag,
  repository,
  packageJson: readFileSync(join(root, "package.json"), "utf8"),
  changelog: readFileSync(join(root, ".github/CHANGELOG.md"), "utf8")
})
if ("problems" in release) {
  process.stderr.write(`${release.problems.join("\n")}\n`)
  process.exitCode = 1
} else {
  writeFileSync(join(root, "package.json"), release.packageJson)
  process.stdout.write(`${release.notes}\n`)
}
