// The examples of doc comments: every one has sound types, runs, and prints what it says.
import { afterAll, assert, beforeAll, describe, it, vi } from "@effect/vitest"
import { execFile } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { format, promisify, stripVTControlCharacters } from "node:util"
import { entries } from "./support/entries.ts"
import { root, sources } from "./support/sources.ts"

const run = promisify(execFile)

interface Example {
  readonly path: string
  readonly title: string
  readonly code: string
}

const examples: ReadonlyArray<Example> = sources().flatMap(({ path, text }) =>
  Array.from(
    text.matchAll(/\*\*Example\*\* \(([^)]+)\)\n(?: \*\n)? \* ```ts\n([\s\S]*?)\n? \* ```/g),
    ([, title = "", code = ""]) => ({ path, title, code: code.replaceAll(/^ \* ?/gm, "") })
  )
)

/** What an example says it prints: the comments `// => …`. */
const promised = (code: string): ReadonlyArray<string> =>
  Array.from(code.matchAll(/\/\/ => (.*)$/gm), ([, said = ""]) => said)

const fileOf = (example: Example): string => `${example.path.replaceAll(/[/.]/g, "-")}-${examples.indexOf(example)}.ts`

describe("examples", () => {
  let folder = ""

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "hermes-examples-"))
    symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))
    for (const example of examples) writeFileSync(join(folder, fileOf(example)), example.code)
    writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }))
    writeFileSync(
      join(folder, "tsconfig.json"),
      JSON.stringify({
        extends: join(root, "tsconfig.json"),
        compilerOptions: { noUnusedLocals: false, typeRoots: [join(root, "node_modules/@types")] },
        include: ["*.ts"]
      })
    )
  })

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it("every namespace of the public API has one", () => {
    const text = entries()
      .map(({ source }) => readFileSync(source, "utf8"))
      .join("\n")
    const missing = Array.from(text.matchAll(/^export \* as (\w+) from/gm), ([, name = ""]) => name).filter(
      (name) => !examples.some(({ code }) => new RegExp(`\\b${name}\\b`).test(code))
    )
    assert.deepStrictEqual(missing, [])
  })

  it("have sound types", async () => {
    const checked = await run(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", folder], {
      cwd: folder
    }).then(
      () => "",
      (error: { readonly stdout: string }) => error.stdout
    )
    assert.strictEqual(checked, "")
  })

  for (const example of examples) {
    it(`${example.path}: ${example.title}`, async () => {
      const printed: Array<string> = []
      const log = vi.spyOn(console, "log").mockImplementation((...args: ReadonlyArray<unknown>) => {
        printed.push(stripVTControlCharacters(format(...args)))
      })
      const before = process.cwd()
      // A folder per example, so that no example reads the files of another.
      const work = join(folder, "work", String(examples.indexOf(example)))
      mkdirSync(work, { recursive: true })
      process.chdir(work)
      try {
        await import(join(folder, fileOf(example)))
      } finally {
        process.chdir(before)
        log.mockRestore()
      }
      assert.deepStrictEqual(printed, promised(example.code))
    })
  }
})
