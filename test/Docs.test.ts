// The documentation: every link of a page leads to something that is there, and the site is whole.
import { assert, describe, it } from "@effect/vitest"
import { existsSync } from "node:fs"
import { dirname, join, posix } from "node:path"
import { findNearestPath, getRootShape, findShapeOfPath } from "../src/base/config/internal/SettingsShape.ts"
import { root } from "./support/sources.ts"
import { readImages, renderSite, sitePages, slug } from "./support/site.ts"

const pages = sitePages()

/** Links of Markdown outside of code. */
const linksOf = (markdown: string): ReadonlyArray<string> =>
  Array.from(
    markdown
      .replaceAll(/^```[\s\S]*?^```/gm, "")
      .replaceAll(/`[^`\n]*`/g, "")
      .matchAll(/\]\(([^)\s]+)\)/g),
    ([, link = ""]) => link
  )

/** Guides that every release has, by the file of each. */
const guides = [
  "first-agent",
  "tools-and-approvals",
  "middleware",
  "hooks",
  "plugins",
  "testing",
  "providers-and-routes",
  "sessions",
  "observability",
  "server",
  "from-langchain",
  "from-ai-sdk",
  "from-mastra"
]

describe("documentation", () => {
  it("has a guide for each subject, in the guides' index, in the site and in its contents, with an example that runs", () => {
    const index = linksOf(pages.find(({ path }) => path === "guides/index")?.markdown ?? "")
    const contents = renderSite({ pages }).get("guides/index.html") ?? ""
    const missing = guides.flatMap((name) => {
      const page = pages.find(({ source }) => source === `scratchpad/guides/${name}.md`)
      return [
        ...(index.includes(`${name}.md`) ? [] : [`${name}: not in the index`]),
        ...(contents.includes(` href="../guides/${name}.html"`) ? [] : [`${name}: not in the contents of the site`]),
        ...(page?.markdown.includes("<!-- scratchpad/guides/") === true ? [] : [`${name}: no example`])
      ]
    })
    assert.deepStrictEqual(missing, [])
    const unlisted = pages.filter(
      ({ section, source }) =>
        section === "Guides" &&
        !source.endsWith("/README.md") &&
        !index.includes(source.replace("scratchpad/guides/", ""))
    )
    assert.deepStrictEqual(
      unlisted.map(({ source }) => source),
      []
    )
  })

  it("links files that are there, and headings that they have", () => {
    const headings = new Map(
      pages.map(({ markdown, source }) => [
        source,
        Array.from(markdown.matchAll(/^#+ (.+)$/gm), ([, text = ""]) => slug(text))
      ])
    )
    const wrong = pages.flatMap(({ markdown, source }) =>
      linksOf(markdown)
        .filter((link) => !/^(?:https?|mailto):/.test(link))
        .filter((link) => {
          const [path = "", anchor] = link.split("#")
          const file = path === "" ? source : posix.join(posix.dirname(source), path)
          if (!existsSync(join(root, file))) return true
          const known = headings.get(file) ?? headings.get(posix.join(file, "README.md"))
          return anchor !== undefined && known?.includes(anchor) !== true
        })
        .map((link) => `${source}: ${link}`)
    )
    assert.deepStrictEqual(wrong, [])
  })

  it("names exports that are there", () => {
    const exported = new Map(
      pages
        .filter(({ section }) => section === "Reference")
        .flatMap(({ markdown, title }) => {
          const names = new Set(Array.from(markdown.matchAll(/^## (\w+)$/gm), ([, name = ""]) => name))
          return title.split(", ").map((module) => [module, names] as const)
        })
    )
    const wrong = pages
      .filter(({ section }) => section === "Guides" || section === "Start")
      .flatMap(({ markdown, source }) =>
        Array.from(
          markdown.replaceAll(/^```[\s\S]*?^```/gm, "").matchAll(/`([^`\n]+)`/g),
          ([, code = ""]) => code
        ).flatMap((code) =>
          Array.from(code.matchAll(/(?<![\w./])([A-Z]\w+)\.([A-Za-z]\w*)/g))
            .filter(([, module = "", name = ""]) => exported.get(module)?.has(name) === false)
            .map(([text]) => `${source}: ${text}`)
        )
      )
    assert.deepStrictEqual(wrong, [])
  })

  it("names settings that there are", () => {
    const named = pages
      .filter(({ section }) => section !== "Reference" && section !== "Tours")
      .flatMap(({ markdown, source }) =>
        Array.from(
          markdown.replaceAll(/^```[\s\S]*?^```/gm, "").matchAll(/`([a-z_]+(?:\.[a-z_]+)+)(?::[^`\n]*)?`/g),
          ([, code = ""]) => ({ code, source, path: code.split(".") })
        ).filter(
          ({ code, path: [first = ""] }) => getRootShape().fields.has(first) && !/\.(?:toml|ts|json)$/.test(code)
        )
      )
    assert.isAbove(named.length, 50)
    assert.deepStrictEqual(
      named
        .filter(({ path }) => findShapeOfPath(path) === undefined)
        .map(({ code, path, source }) => `${source}: ${code}; nearest: ${findNearestPath(path)?.join(".")}`),
      []
    )
  })

  it("is a site whose links stay inside, found by words and by llms.txt", () => {
    const files = renderSite({ pages })
    const wrong = Array.from(files)
      .filter(([path]) => path.endsWith(".html"))
      .flatMap(([path, html]) =>
        Array.from(html.matchAll(/ href="([^"#]+)/g), ([, href = ""]) => href)
          .filter((href) => !/^(?:https?|mailto):/.test(href))
          .filter((href) => !files.has(posix.join(dirname(path), href)))
          .map((href) => `${path}: ${href}`)
      )
    assert.deepStrictEqual(wrong, [])
    const llms = files.get("llms.txt") ?? ""
    assert.isTrue(llms.startsWith("# hermes-effect\n\n> "))
    assert.deepStrictEqual(
      linksOf(llms).filter((link) => !/^https?:/.test(link) && !files.has(link)),
      []
    )
    assert.deepStrictEqual(
      pages.filter(({ path }) => !linksOf(llms).includes(`${path}.md`)).map(({ path }) => path),
      []
    )
    assert.isTrue(files.get("search.js")?.startsWith("window.pages=[{"))
    assert.include(files.get("reference/Agent.html"), 'id="run"')
    assert.match(files.get("reference/hermes-effect-promise.html") ?? "", /id="createhermes"[\s\S]*?<p>[A-Z]/i)
    assert.notMatch(files.get("reference/Cluster.html") ?? "", /<\/h2>\s*<pre/)
    assert.notInclude(files.get("index.html"), "<!-- ")
    assert.include(files.get("guides/first-agent.html"), '<span class="kwd">import</span>')
    assert.notInclude(files.get("index.html"), "versions.js")
    const pictures = Array.from(
      (files.get("index.html") ?? "").matchAll(/<img src="([^"]+)" alt="[^"]+"/g),
      ([, src = ""]) => src
    )
    assert.isAbove(pictures.length, 1)
    assert.deepStrictEqual(
      pictures.filter((path) => !readImages().has(path)),
      []
    )
  })

  it("of a release offers the other versions", () => {
    const files = renderSite({ pages, version: "1.2.3" })
    assert.include(files.get("index.html"), '<script src="../versions.js">')
    assert.include(files.get("guides/index.html"), '<script src="../../versions.js">')
    assert.include(files.get("index.html"), 'data-version="1.2.3"')
  })
})
