import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { createHash } from "node:crypto"
import * as TarArchive from "../../../src/base/domain/TarArchive.ts"

const file = (path: string, text: string): TarArchive.NewFile => ({
  path,
  bytes: new TextEncoder().encode(text),
  changedAt: 1_700_000_000_500
})
const written = (files: ReadonlyArray<TarArchive.NewFile>) =>
  Stream.mkUint8Array(TarArchive.write(Stream.fromIterable(files)))

it.effect("an archive has its files as they were, whatever their names and lengths", () =>
  Effect.gen(function* () {
    const files = [
      file("a.json", "{}"),
      file("empty", ""),
      file("images/whole block", "x".repeat(512)),
      file(`${"long ".repeat(19)}12345`, "just fits"),
      file(`${"é".repeat(60)}.json`, "longer in bytes than in signs"),
      file(`${"n".repeat(200)}/${"m".repeat(900)}.md`, "two"),
      file("last", "y".repeat(1300))
    ]
    const read = Result.getOrThrow(TarArchive.read(yield* written(files)))
    assert.deepStrictEqual(
      read.map(({ bytes, path }) => [path, Buffer.from(bytes).toString()]),
      files.map(({ bytes, path }) => [path, Buffer.from(bytes).toString()])
    )
  })
)

// What GNU tar 1.35 lists of it: -rw------- 0/0 2 2023-11-14 22:13 a.json
it.effect("has the bytes that other programs read", () =>
  Effect.gen(function* () {
    const bytes = yield* written([file("a.json", "{}")])
    assert.strictEqual(bytes.length, 2048)
    assert.strictEqual(
      createHash("sha256").update(bytes).digest("hex"),
      "2fd0c4e215830e7194ac36d8ea6f4771996e95e5e20de6fc20915d2bce07be35"
    )
  })
)
