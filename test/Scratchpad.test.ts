// The tours and guides of scratchpad/ run as they are, and the snippets of the README and of the guides are taken from
// them.
import { assert, beforeAll, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { matchesGlob, join } from "node:path"
import { promisify } from "node:util"
import { root } from "./support/sources.ts"

const folder = join(root, "scratchpad")
const tours = readdirSync(folder)
  .filter((name) => /^\d+-.*\.ts$/.test(name))
  .toSorted()
const guides = readdirSync(join(folder, "guides"))
const pages = guides.filter((name) => name.endsWith(".md"))
const examples = guides.filter((name) => name.endsWith(".ts"))

interface Played {
  readonly file: string
  readonly stdout: string
  readonly stderr: string
}

/** What each file printed. One process runs all of them: to load the sources takes far longer than to run a tour. */
let played: ReadonlyMap<string, Played> = new Map()
beforeAll(async () => {
  const files = [...tours, ...examples.map((name) => join("guides", name))].map((name) => join(folder, name))
  const { stderr, stdout } = await promisify(execFile)(
    process.execPath,
    [join(root, "test/support/playTours.ts"), ...files],
    { cwd: root }
  )
  assert.strictEqual(stderr, "")
  played = new Map(
    stdout
      .trimEnd()
      .split("\n")
      .map((line): Played => JSON.parse(line))
      .map((one) => [one.file, one])
  )
})

/** What a file below `scratchpad/` printed, and nothing to stderr but warnings of the runtime. */
const printed = (name: string): string => {
  const { stderr, stdout } = played.get(join(folder, name)) ?? { stdout: "", stderr: "not played" }
  const others = stderr.split("\n").filter((line) => line !== "" && !/ WARN .*'hermes\.logger'/u.test(line))
  assert.deepStrictEqual(others, [])
  return stdout
}

const expected: Readonly<Record<string, RegExp>> = {
  "01-smallest-run.ts": /^hello from hermes \(text_response after 1 step\)\n$/,
  "02-own-tool.ts": /^It is 4 degrees in Oslo\.\n$/,
  "03-streaming.ts": /^→ read_file\n← read_file: ok\ntext_response after 2 steps\n$/,
  "04-scripted-test.ts": /^\{ text: 'Bonjour\.', asked: 1, stored: \[ 'user', 'assistant' \] \}\n$/,
  "05-language-model.ts": /^from a LanguageModel\nthrough an agent\n$/,
  "06-approvals.ts": /nobody: blocked\na list: ok\na function: ok\na person: blocked\na model: ok\na messenger: ok\n$/,
  "08-run-context.ts": /^acme: Three are open\.\nglobex has used up its model calls\n$/,
  "07-telemetry.ts":
    /^my request\n {2}invoke_agent reader\n {4}step 1\n {6}chat offline\S*\n {6}execute_tool read_file\n {4}step 2\n {6}chat offline\S*\n$/,
  "09-routes.ts": /^hello from the second route \(offline\)\n$/,
  "11-lifecycle-middleware.ts":
    /^Calling LLM with 3 messages\nModel emitted 1 tool calls\nTool run returned \{ text: 'ran for 30 s' \}\nCalling LLM with 6 messages\nModel emitted 0 tool calls\nthe key is \[redacted\]\n$/,
  "13-tool-and-wrapper.ts": /^three lamps\n$/,
  "12-agent-files.ts":
    /^not trusted\nmy_agent: audit to \/tmp\/audit\.log, Logging\nhello\nbuilt_in: Logging, LlmFailover, LongToolOutput\nhello\n$/,
  "10-run-record.ts": /^answered: \d+ tokens\nread_file: ok\nanswered: \d+ tokens\ntext_response after 2 steps\n$/
}

describe("scratchpad", () => {
  it("every tour has its expected output", () => {
    assert.deepStrictEqual(tours, Object.keys(expected).toSorted())
  })

  for (const tour of tours) {
    it(`${tour} runs`, () => {
      assert.match(printed(tour), expected[tour] ?? /$^/)
    })
  }

  it("the README's snippets are these files", () => {
    assert.isAtLeast(checkedSnippets("README.md").length, 1)
  })
})

/** Files that a page shows, each compared with the page's text of it. */
const checkedSnippets = (page: string): ReadonlyArray<string> =>
  Array.from(
    readFileSync(join(root, page), "utf8").matchAll(/<!-- (scratchpad\/[\w./-]+) -->\n+```ts\n([\s\S]*?)```/g),
    ([, path = "", text = ""]) => {
      const source = readFileSync(join(root, path), "utf8")
        .replaceAll(/"(?:\.\.\/)+src\/index\.ts"/g, '"hermes-effect"')
        .replaceAll(/"(?:\.\.\/)+src\/kit\/entry\/([\w/-]+)\.ts"/g, '"hermes-effect/$1"')
      assert.strictEqual(text, source, path)
      return path
    }
  )

describe("guides", () => {
  it("come with the package", () => {
    const { files } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      // The fields of this package's own file.
      readonly files: ReadonlyArray<string>
    }
    const isPacked = (link: string) =>
      files.some((entry) => (entry.includes("*") ? matchesGlob(link, entry) : link.startsWith(`${entry}/`))) &&
      !files.some((entry) => entry.startsWith("!") && matchesGlob(link, entry.slice(1)))
    const linked = Array.from(
      readFileSync(join(root, "README.md"), "utf8").matchAll(/\]\(([^):#]+)\)/g),
      ([, link = ""]) => link
    )
    assert.include(linked, "scratchpad/guides/authors.md")
    assert.deepStrictEqual(
      // Pictures are left out: the page of a package shows them from the repository.
      linked.filter((link) => !isPacked(link) && !link.endsWith(".png")),
      []
    )
  })

  it("show files beside them, every one of them, and no other code", () => {
    const shown = pages.flatMap((name) => checkedSnippets(`scratchpad/guides/${name}`))
    assert.deepStrictEqual(shown.toSorted(), examples.map((name) => `scratchpad/guides/${name}`).toSorted())
    const blocks = pages.flatMap((name) => readFileSync(join(folder, "guides", name), "utf8").match(/^```ts$/gm) ?? [])
    assert.strictEqual(blocks.length, shown.length)
  })

  it("link pages that are there", () => {
    const missing = pages.flatMap((name) =>
      Array.from(
        readFileSync(join(folder, "guides", name), "utf8").matchAll(/\]\(([^)#:]+)\)/g),
        ([, link = ""]) => link
      ).filter((link) => !existsSync(join(folder, "guides", link)))
    )
    assert.deepStrictEqual(missing, [])
  })

  for (const example of examples) {
    it(`${example} prints what it says`, () => {
      const promised = Array.from(
        readFileSync(join(folder, "guides", example), "utf8").matchAll(/^\/\/ => (.*)$/gm),
        ([, line]) => line
      )
      assert.deepStrictEqual(printed(`guides/${example}`).trimEnd().split("\n"), promised)
    })
  }
})
