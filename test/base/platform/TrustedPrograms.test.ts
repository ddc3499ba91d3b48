// Which programs this process starts for itself: never those of a working tree, of a launcher, or of a place that a
// command may write.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { chmodSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { StartDirectory } from "../../../src/base/platform/CurrentProcess.ts"
import { ProcessEnvironment } from "../../../src/base/platform/ProcessVariables.ts"
import * as TrustedPrograms from "../../../src/base/platform/TrustedPrograms.ts"
import { markAsRepository, temporaryDirectory } from "../../support/temporaryDirectory.ts"

/** A repository below a directory of the user, with a folder in it that a program is started in. */
const world = Effect.map(temporaryDirectory, (directory) => {
  const root = realpathSync(directory)
  const at = (...names: ReadonlyArray<string>): string => join(root, ...names)
  const tree = at("project")
  markAsRepository(tree)
  mkdirSync(join(tree, "packages/one"), { recursive: true })
  const plant = (path: string, mode = 0o755): string => {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, "#!/bin/sh\n")
    chmodSync(path, mode)
    return path
  }
  const given =
    (searchPath: string | undefined) =>
    <A, E, R>(effect: Effect.Effect<A, E, R>) =>
      effect.pipe(
        Effect.provideService(ProcessEnvironment, () => ({ PATH: searchPath })),
        Effect.provideService(StartDirectory, () => join(tree, "packages/one"))
      )
  /** The program that is found; `none` where there is none. */
  const find = (name: string, ...entries: ReadonlyArray<string>) =>
    TrustedPrograms.find(name).pipe(
      Effect.catch(({ reason }) => Effect.succeed(reason._tag === "NotFound" ? "none" : reason._tag)),
      given(entries.join(":"))
    )
  return { at, find, given, plant, tree }
})

describe("a program that this process starts for itself", () => {
  it.effect("is found by an absolute path, in the order of PATH", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { at, find, plant } = yield* world
        const [first, second] = [plant(at("first/helper")), plant(at("second/helper"))]
        assert.strictEqual(yield* find("helper", at("missing"), at("first"), at("second")), first)
        assert.strictEqual(yield* find("helper", at("second"), at("first")), second)
        assert.strictEqual(yield* find("other-helper", at("first")), "none")
        // The user wrote a path down.
        assert.strictEqual(yield* find(second, at("first")), second)
      })
    )
  )

  it.effect("does not come from the working tree, a launcher, or an entry that depends on the directory", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { at, find, plant, tree } = yield* world
        plant(at("bin/other"))
        const places = [
          join(tree, "packages/one/node_modules/.bin"),
          join(tree, "node_modules/.bin"),
          join(tree, ".venv/bin"),
          join(tree, "bin"),
          tree,
          at("node_modules/.bin"),
          at("cache/_npx/1/node_modules/.bin")
        ]
        for (const place of places) plant(join(place, "helper"))
        symlinkSync(join(tree, "bin"), at("linked"))
        mkdirSync(at("links"))
        symlinkSync(join(tree, "bin/helper"), at("links/helper"))
        for (const entry of [
          ...places,
          at("linked"),
          at("links"),
          `${at("bin")}/../project/bin`,
          "",
          ".",
          "bin",
          "./node_modules/.bin"
        ]) {
          assert.strictEqual(yield* find("helper", entry, at("bin")), "none", entry)
        }
        for (const name of ["./helper", "bin/helper", "../helper"])
          assert.strictEqual(yield* find(name, at("bin")), "none", name)
      })
    )
  )

  it.effect("is a file that can be executed, and that not everybody can write", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { at, find, plant } = yield* world
        plant(at("plain/helper"), 0o644)
        plant(at("open/helper"), 0o777)
        mkdirSync(at("folder/helper"), { recursive: true })
        plant(at("shared/helper"))
        chmodSync(at("shared"), 0o777)
        const last = plant(at("last/helper"))
        assert.strictEqual(
          yield* find("helper", ...["plain", "open", "folder", "shared", "last"].map((name) => at(name))),
          last
        )
      })
    )
  )

  it.effect("does not come from a place that commands may write since, even if it was found there before", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { at, find, plant } = yield* world
        plant(at("given/bin/helper"))
        plant(at("beside/helper"))
        symlinkSync(at("given"), at("name"))
        assert.strictEqual(yield* find("helper", at("given/bin"), at("beside")), at("given/bin/helper"))
        TrustedPrograms.distrustPlaces([at("name")])
        assert.strictEqual(yield* find("helper", at("given/bin"), at("beside")), at("beside/helper"))
        assert.strictEqual(yield* find("helper", at("name/bin"), at("beside")), at("beside/helper"))
      })
    )
  )

  it.effect("is one of the system where PATH has no entry that is trusted", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { find, given, plant, tree } = yield* world
        plant(join(tree, "node_modules/.bin/sh"))
        for (const entries of [["."], [""], [join(tree, "node_modules/.bin")]])
          assert.match(yield* find("sh", ...entries), /^\/(?:usr\/)?(?:local\/)?s?bin\/sh$/)
        assert.match(yield* given(undefined)(TrustedPrograms.find("sh")), /^\//)
        assert.match(
          yield* Effect.provideService(given(".")(TrustedPrograms.find("sh")), StartDirectory, () => "/"),
          /^\//
        )
      })
    )
  )
})

describe("what such a program starts", () => {
  it.effect("is found in trusted directories only; what the user types keeps the user's own entries", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { at, given, plant, tree } = yield* world
        for (const name of ["bin/a", "project/node_modules/.bin/a", "project/.venv/bin/a"]) plant(at(name))
        const searchPath = [
          join(tree, "node_modules/.bin"),
          ".",
          "",
          join(tree, ".venv/bin"),
          at("bin"),
          "/usr/bin",
          "bin"
        ].join(":")
        assert.strictEqual(yield* given(searchPath)(TrustedPrograms.safePath), `${at("bin")}:/usr/bin`)
        assert.strictEqual(
          (yield* given(searchPath)(TrustedPrograms.safeEnvironment))()["PATH"],
          `${at("bin")}:/usr/bin`
        )
        assert.strictEqual(
          (yield* given(searchPath)(TrustedPrograms.shellEnvironment))()["PATH"],
          `${join(tree, ".venv/bin")}:${at("bin")}:/usr/bin`
        )
      })
    )
  )
})
