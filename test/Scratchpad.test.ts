// The tours of scratchpad/ run as they are, and the README's snippets are taken from them.
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { root } from "./support/sources.ts"

const run = promisify(execFile)
const folder = join(root, "scratchpad")
const tours = readdirSync(folder).filter((name) => /^\d+-.*\.ts$/.test(name)).toSorted()

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
  "09-routes.ts": /^hello from the second route \(offline\)\n$/
}

describe("scratchpad", () => {
  it("every tour has its expected output", () => {
    assert.deepStrictEqual(tours, Object.keys(expected).toSorted())
  })

  for (const tour of tours) {
    it(`${tour} runs`, async () => {
      const { stderr, stdout } = await run(process.execPath, [join(folder, tour)], { cwd: root })
      assert.match(stdout, expected[tour] ?? /$^/)
      assert.strictEqual(stderr, "")
    })
  }

  it("the README's snippets are these files", () => {
    const readme = readFileSync(join(root, "README.md"), "utf8")
    const snippets = Array.from(readme.matchAll(/<!-- (scratchpad\/[\w./-]+) -->\n+```ts\n([\s\S]*?)```/g))
    assert.isAtLeast(snippets.length, 3)
    for (const [, path = "", text = ""] of snippets) {
      const source = readFileSync(join(root, path), "utf8").replaceAll("\"../src/index.ts\"", "\"hermes-effect\"")
      assert.strictEqual(text, source, path)
    }
  })
})
