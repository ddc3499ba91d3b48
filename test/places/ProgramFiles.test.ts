// The files that the next start of the program loads, for each way in which it is installed.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import { mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { findProgramFiles } from "../../src/base/platform/ProgramFiles.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const put = (file: string, text: string) => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

const find = (top: string, module: string, script: string | undefined) =>
  Effect.map(
    findProgramFiles({
      module: join(top, module),
      script: script === undefined ? undefined : join(top, script),
      node: join(top, "node")
    }),
    ({ files, links }) => ({
      files: files.map((file) => file.replace(`${top}/`, "")),
      links: links.map((file) => file.replace(`${top}/`, ""))
    })
  )

const machine = Effect.map(temporaryDirectory, (made) => realpathSync(made))

describe("files of the program", () => {
  it.effect("of an installed package are its directory, what it depends on, and the links to its script", () =>
    Effect.gen(function* () {
      const top = yield* machine
      put(
        join(top, "node_modules/hermes-effect/package.json"),
        JSON.stringify({ name: "hermes-effect", dependencies: { a: "1" }, peerDependencies: { absent: "1" } })
      )
      put(join(top, "node_modules/hermes-effect/dist/bin.js"), "")
      put(join(top, "node_modules/a/package.json"), JSON.stringify({ name: "a", dependencies: { b: "1", a: "1" } }))
      put(join(top, "node_modules/a/node_modules/b/package.json"), "{}")
      put(join(top, "node_modules/other/package.json"), "{}")
      mkdirSync(join(top, "node_modules/.bin"))
      symlinkSync("../hermes-effect/dist/bin.js", join(top, "node_modules/.bin/hermes"))
      assert.deepStrictEqual(yield* find(top, "node_modules/hermes-effect/dist/bin.js", "node_modules/.bin/hermes"), {
        files: ["node_modules/hermes-effect", "node", "node_modules/a", "node_modules/a/node_modules/b"],
        links: ["node_modules/.bin/hermes"]
      })
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("of a store behind links are those of the store, with each link on the way", () =>
    Effect.gen(function* () {
      const top = yield* machine
      put(
        join(top, "store/hermes@1/node_modules/hermes-effect/package.json"),
        JSON.stringify({ name: "hermes-effect", dependencies: { a: "1" } })
      )
      put(join(top, "store/hermes@1/node_modules/hermes-effect/dist/bin.js"), "")
      put(join(top, "store/a@1/node_modules/a/package.json"), "{}")
      symlinkSync("../../a@1/node_modules/a", join(top, "store/hermes@1/node_modules/a"))
      mkdirSync(join(top, "node_modules"))
      symlinkSync("../store/hermes@1/node_modules/hermes-effect", join(top, "node_modules/hermes-effect"))
      const { files, links } = yield* find(
        top,
        "node_modules/hermes-effect/dist/bin.js",
        "node_modules/hermes-effect/dist/bin.js"
      )
      assert.includeMembers(files, ["store/hermes@1/node_modules/hermes-effect", "store/a@1/node_modules/a"])
      assert.deepStrictEqual(links, ["node_modules/hermes-effect", "store/hermes@1/node_modules/a"])
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("of a checkout are those that a start loads, and of a bundle the bundle alone", () =>
    Effect.gen(function* () {
      const top = yield* machine
      put(join(top, "work/package.json"), JSON.stringify({ name: "hermes-effect" }))
      put(join(top, "work/src/main.ts"), "")
      assert.deepStrictEqual((yield* find(top, "work/src/main.ts", undefined)).files, [
        "work/dist",
        "work/node_modules",
        "work/package.json",
        "work/src",
        "node"
      ])
      put(join(top, "app/package.json"), JSON.stringify({ name: "app" }))
      put(join(top, "app/out/app.js"), "")
      assert.deepStrictEqual((yield* find(top, "app/out/app.js", undefined)).files, ["app/out/app.js", "node"])
    }).pipe(Effect.provide(NodeServices.layer))
  )
})
