// The picture on the clipboard, by a program of the system: a stand-in in front of the search path.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Clipboard from "../../../src/program/cli/Clipboard.ts"
import { Environment, make } from "../../../src/base/config/Environment.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

describe("the picture on the clipboard", () => {
  it.live("is kept in a file for as long as the conversation; what is no PNG, or too much, is none", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryDirectory
      const program = join(folder, "xclip")
      const plays = (script: string) => {
        writeFileSync(program, `#!/bin/sh\n${script}\n`)
        chmodSync(program, 0o700)
      }
      const before = process.env["PATH"]
      process.env["PATH"] = `${folder}:${before ?? ""}`
      yield* Effect.addFinalizer(() => Effect.sync(() => void (process.env["PATH"] = before)))
      const environment = make({ DISPLAY: ":0" })
      const kept = yield* Effect.scoped(
        Effect.gen(function* () {
          const { picture } = yield* Clipboard.make
          plays("printf 'no picture'")
          assert.isUndefined(yield* picture)
          plays("printf '\\211PNG\\r\\n\\032\\n'; exit 1")
          assert.isUndefined(yield* picture)
          plays("printf '\\211PNG\\r\\n\\032\\n'; head -c 21000000 /dev/zero")
          assert.isUndefined(yield* picture)
          plays("printf '\\211PNG\\r\\n\\032\\n'")
          const file = yield* picture
          assert.deepStrictEqual([...readFileSync(file ?? "")], [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
          return file
        })
      ).pipe(Effect.provideService(Environment, environment), Effect.provide(NodeServices.layer))
      assert.isFalse(existsSync(kept ?? ""))
    }).pipe(Effect.scoped)
  )
})
