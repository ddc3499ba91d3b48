import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { gzipSync } from "node:zlib"
import * as CsvRecords from "../../../src/research/batch/CsvRecords.ts"
import * as Dataset from "../../../src/research/batch/Dataset.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const required = ["prompt"]

/** Two rows (id, prompt, level), written by another library (hyparquet-writer, Snappy). */
const parquet =
  "UEFSMRUGFRgVHFwVBBUAFQQVABUEFQAAAAMDCiQBAAAAYQEAAABiFQYVMBU0XBUEFQAVBBUAFQQVAAAAAwMWVAcAAABTYXkgb25lBwAAAFNheSB0d28VBhUkFShcFQQVABUEFQAVBBUAAAADAxA8AwAAAAAAAAAEAAAAAAAAABUEGUxIBHJvb3QVBgAVDCUCGAJpZCUAABUMJQIYBnByb21wdCUAABUEJQIYBWxldmVsABYEGRwZPCYIHBUMGRUAGRgCaWQVAhYEFkIWRiYIPDYAKAFiGAFhABkcFQYVABUCAAAAJk4cFQwZFQAZGAZwcm9tcHQVAhYEFloWXiZOPDYAKAdTYXkgdHdvGAdTYXkgb25lABkcFQYVABUCAAAAJqwBHBUEGRUAGRgFbGV2ZWwVAhYEFk4WUiasATw2ACgIBAAAAAAAAAAYCAMAAAAAAAAAABkcFQYVABUCAAAAFuoBFgQ29gEAKAloeXBhcnF1ZXQZPBwAABwAABwAAAAAAQAAUEFSMQ=="

/** Reads files, by their paths below a folder; one file is read by itself. */
const reading = (files: Record<string, string | Uint8Array>, options: Dataset.Options = { required }) =>
  Effect.gen(function* () {
    const folder = yield* temporaryDirectory
    const names = Object.keys(files)
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      writeFileSync(join(folder, name), content)
    }
    return yield* Dataset.read(names.length === 1 ? join(folder, names[0] ?? "") : folder, options)
  }).pipe(Effect.provide(NodeServices.layer))

const ids = ({ rows }: Dataset.Dataset) => rows.map(({ id }) => id)
const told = ({ problems }: Dataset.Dataset) => problems.map(({ line, message }) => `${line}: ${message}`)
const jsonl = (...rows: ReadonlyArray<unknown>) => rows.map((row) => `${JSON.stringify(row)}\n`).join("")

describe("Dataset", () => {
  it.effect("malformed rows are told with their lines, and the others are read", () =>
    Effect.gen(function* () {
      const data = yield* reading({
        "data.jsonl":
          '{"prompt":"one"}\n\n{broken\n[1]\n{"promt":"two"}\n{"prompt":" "}\n{"prompt":3}\n{"prompt":"last"}'
      })
      assert.deepStrictEqual(
        data.rows.map(({ fields, line }) => [line, fields["prompt"]]),
        [
          [1, "one"],
          [8, "last"]
        ]
      )
      assert.deepStrictEqual(told(data), [
        "3: not valid JSON",
        "4: expected an object of named fields",
        '5: "prompt" is missing; the row has "promt"',
        '6: "prompt" is empty',
        '7: "prompt" is not a text'
      ])
    })
  )

  it.effect("a row without an id is named by its content, whatever its place and the order of its keys", () =>
    Effect.gen(function* () {
      const first = yield* reading({ "data.jsonl": jsonl({ prompt: "a", x: 1 }, { prompt: "b" }) })
      const second = yield* reading({ "data.jsonl": jsonl({ prompt: "new" }, { prompt: "b" }, { x: 1, prompt: "a" }) })
      assert.includeMembers(ids(second), ids(first))
      assert.strictEqual(new Set(ids(second)).size, 3)
    })
  )

  it.effect("two rows of one content are two rows; an id that is used twice is a problem of the second", () =>
    Effect.gen(function* () {
      const same = yield* reading({ "data.jsonl": jsonl({ prompt: "a" }, { prompt: "a" }) })
      assert.strictEqual(new Set(ids(same)).size, 2)
      const twice = yield* reading({
        "data.jsonl": jsonl({ id: "x", prompt: "a" }, { id: 7, prompt: "b" }, { id: "x", prompt: "c" })
      })
      assert.deepStrictEqual([ids(twice), told(twice)], [["x", "7"], ['3: id "x" was used already in line 1']])
    })
  )

  it.effect("the digest of a dataset stays when rows are moved, and not when one changes", () =>
    Effect.gen(function* () {
      const rows = [
        { id: "a", prompt: "1" },
        { id: "b", prompt: "2" }
      ]
      const before = yield* reading({ "data.jsonl": jsonl(...rows) })
      const moved = yield* reading({ "data.jsonl": jsonl(...rows.toReversed()) })
      const changed = yield* reading({ "data.jsonl": jsonl({ id: "b", prompt: "other" }, { id: "c", prompt: "3" }) })
      assert.strictEqual(moved.digest, before.digest)
      assert.notStrictEqual(changed.digest, before.digest)
      const known = new Map(before.rows.map(({ digest, id }) => [id, digest]))
      assert.deepStrictEqual(Dataset.compareRows(known, changed.rows), { added: ["c"], changed: ["b"], removed: ["a"] })
      assert.deepStrictEqual(Dataset.compareRows(known, moved.rows), { added: [], changed: [], removed: [] })
    })
  )

  it.effect("CSV: cells over several lines, and records that are malformed", () =>
    Effect.gen(function* () {
      const text =
        '\uFEFFid,prompt\r\na,"two\nlines, ""quoted"""\r\nb,too,many\r\n\r\nc,half"quoted\r\nd,"x"y\r\ne,fine\r\n'
      const data = yield* reading({ "data.csv": text })
      assert.deepStrictEqual(
        data.rows.map(({ fields, line }) => [line, fields["prompt"]]),
        [
          [2, 'two\nlines, "quoted"'],
          [8, "fine"]
        ]
      )
      assert.deepStrictEqual(told(data), [
        "4: 3 cells where the header has 2",
        "6: a quote stands inside of a cell that is not quoted",
        "7: text follows a closing quote"
      ])
      assert.deepStrictEqual(CsvRecords.read('a\n"never'), [
        { line: 1, cells: ["a"] },
        { line: 2, problem: "a quoted cell is never closed" }
      ])
    })
  )

  it.effect(
    "a folder as the hub lays it out: train unless another split is named, compressed files, no other files",
    () =>
      Effect.gen(function* () {
        const files = {
          "README.md": "---\n",
          "dataset_info.json": "{}",
          ".cache/train.jsonl": jsonl({ id: "hidden", prompt: "x" }),
          "data/train-00000-of-00002.jsonl": jsonl({ id: "a", prompt: "1" }),
          "data/train-00001-of-00002.jsonl.gz": new Uint8Array(gzipSync(jsonl({ id: "b", prompt: "2" }))),
          "data/test.json": JSON.stringify([{ id: "t", prompt: "3" }])
        }
        assert.deepStrictEqual(ids(yield* reading(files)), ["a", "b"])
        assert.deepStrictEqual(ids(yield* reading(files, { required, split: "test" })), ["t"])
        const { message } = yield* Effect.flip(reading(files, { required, split: "validation" }))
        assert.match(message, /has no split "validation": there is test, train/)
      })
  )

  it.effect("Parquet: columns become fields, and large integers numbers", () =>
    Effect.gen(function* () {
      const { rows } = yield* reading({
        "data/train-00000-of-00001.parquet": new Uint8Array(Buffer.from(parquet, "base64")),
        "README.md": ""
      })
      assert.deepStrictEqual(
        rows.map(({ fields, id, line }) => [id, line, fields["prompt"], fields["level"]]),
        [
          ["a", 1, "Say one", 3],
          ["b", 2, "Say two", 4]
        ]
      )
    })
  )

  it.effect("a dataset that cannot be used says why", () =>
    Effect.gen(function* () {
      const message = (files: Record<string, string>) =>
        Effect.map(Effect.flip(reading(files)), ({ message }) => message)
      assert.match(yield* message({ "data.jsonl": "" }), /has no usable row: it is empty/)
      assert.match(yield* message({ "data.jsonl": "{}" }), /has no usable row: .*line 1: "prompt" is missing/)
      assert.match(yield* message({ "data.txt": "hello" }), /expected a \.jsonl, .*file, or a folder/)
      assert.match(
        yield* message({ "a/train.arrow": "ARROW1", "b.md": "" }),
        /train.arrow: this format is not read here: convert it/
      )
      assert.match(yield* message({ "data.parquet": "no such format" }), /dataset .*data\.parquet cannot be read: /)
      const absent = yield* Effect.flip(Effect.provide(Dataset.read("/not/there.jsonl"), NodeServices.layer))
      assert.match(absent.message, /cannot be read: no such file/)
    })
  )
})
