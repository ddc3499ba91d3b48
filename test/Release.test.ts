// A release: the tag, the addresses and the changelog of the package, the versions of its site, and its reference.
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parse } from "yaml"
import { renderPackageDocs } from "./support/packageDocs.ts"
import { prepareRelease } from "./support/releases.ts"
import { findVersions, renderVersions } from "./support/siteVersions.ts"
import { root } from "./support/sources.ts"

const packageJson = readFileSync(join(root, "package.json"), "utf8")
const changelog =
  "# Changelog\n\n## Unreleased\n\n- Later\n\n## 0.1.0 (2026-12-01)\n\n### Added\n\n- All of it\n\n## 0.0.9\n"
const input = { packageJson, changelog, tag: "v0.1.0", repository: "somebody/agents" }
const version = JSON.parse(packageJson).version

describe("a release", () => {
  it("fills in the addresses of the repository, and has the version's part of the changelog", () => {
    const release = prepareRelease({ ...input, tag: `v${version}`, changelog: changelog.replace("0.1.0", version) })
    if ("problems" in release) return assert.fail(release.problems.join("\n"))
    const { bugs, homepage, repository } = JSON.parse(release.packageJson)
    assert.deepStrictEqual(
      { bugs, homepage, repository },
      {
        bugs: "https://github.com/somebody/agents/issues",
        homepage: "https://github.com/somebody/agents#readme",
        repository: { type: "git", url: "git+https://github.com/somebody/agents.git" }
      }
    )
    assert.notInclude(release.packageJson, "OWNER")
    assert.strictEqual(release.notes, "### Added\n\n- All of it")
  })

  it("refuses another tag, a version that the changelog lacks, and a placeholder", () => {
    assert.deepStrictEqual(
      prepareRelease({ ...input, tag: "v9.0.0", changelog: "## Unreleased\n\n- Later\n", repository: "nobody" }),
      {
        problems: [
          `The tag is v9.0.0, and package.json has version ${version}: tag v${version}.`,
          `.github/CHANGELOG.md has no entry "## ${version}": move "Unreleased" to it.`,
          '"nobody" is no repository: give owner/name.'
        ]
      }
    )
    const own = prepareRelease({ ...input, repository: "OWNER/hermes-effect" })
    assert.isTrue("problems" in own && own.problems.some((line) => line.includes("no repository")))
    // An entry without text says nothing about the version.
    const silent = prepareRelease({ ...input, changelog: `## ${version}\n\n## 0.0.9\n\n- Old\n` })
    assert.isTrue("problems" in silent && silent.problems[0]?.includes("CHANGELOG"))
  })

  it("publishes with a statement of its origin, and gives each job only the rights that it needs", () => {
    const { jobs, permissions } = parse(readFileSync(join(root, ".github/workflows/release.yml"), "utf8"))
    assert.deepStrictEqual(permissions, {})
    assert.deepStrictEqual(jobs.check.permissions, { contents: "read" })
    assert.deepStrictEqual(jobs.publish.permissions, { contents: "write", "id-token": "write" })
    assert.strictEqual(jobs.publish.needs, "check")
    const commands: ReadonlyArray<string> = Object.values<{ steps: ReadonlyArray<{ run?: string }> }>(jobs).flatMap(
      ({ steps }) => steps.flatMap(({ run }) => run ?? [])
    )
    const publishing = commands.join("\n").match(/npm publish .*/g) ?? []
    assert.isNotEmpty(publishing)
    assert.isTrue(publishing.every((line) => line.includes("--provenance")))
    const { scripts } = JSON.parse(packageJson)
    const named = Array.from(commands.join("\n").matchAll(/npm run (?:-s )?([\w:]+)/g), ([, name = ""]) => name)
    assert.deepStrictEqual(
      named.filter((name) => !Object.hasOwn(scripts, name)),
      []
    )
    // A name of a tag comes from outside: commands read it from the environment.
    assert.notMatch(commands.join("\n"), /\$\{\{/)
  })
})

describe("the site of several versions", () => {
  it("lists versions, the newest first, and leads to the newest final one", () => {
    const folders = ["0.9.0", "versions.js", "1.0.0-beta.2", "0.10.1", ".git", "1.0.0-beta.10", "index.html"]
    assert.deepStrictEqual(findVersions(folders), ["1.0.0-beta.10", "1.0.0-beta.2", "0.10.1", "0.9.0"])
    assert.deepStrictEqual(findVersions([...folders, "1.0.0"])[0], "1.0.0")
    assert.include(renderVersions(folders).get("index.html"), "url=0.10.1/index.html")
    assert.include(renderVersions(["1.0.0-beta.1"]).get("index.html"), "url=1.0.0-beta.1/index.html")
  })
})

describe("the documentation of the package", () => {
  it("has a reference of every export, and lists only files that the package has", () => {
    const files = renderPackageDocs()
    const llms = files.get("llms.txt") ?? ""
    const links = Array.from(llms.matchAll(/\]\(([^)]+)\)/g), ([, link = ""]) => link)
    assert.isAbove(links.length, 100)
    const published = ["README.md", ".github/CHANGELOG.md", "scratchpad/", "src/"]
    assert.deepStrictEqual(
      links.filter((link) => {
        const path = link.replace(/^\.\.\//, "")
        return path === link
          ? !files.has(link)
          : !published.some((start) => path.startsWith(start)) || !existsSync(join(root, path))
      }),
      []
    )
    assert.include(files.get("docs/Agent.md"), "## run\n")
    assert.include(
      files.get("docs/Toolset.md"),
      "interface Any<out T extends Tool.Any = Tool.Any> {\n  readonly [TypeId]: typeof TypeId\n"
    )
  })
})
