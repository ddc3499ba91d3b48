// Packages that an application may leave out: what is said when one is missing, and that nothing else is taken for
// that.
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as OptionalPackage from "../../../src/base/platform/OptionalPackage.ts"

const importing = (specifier: string) => () => import(specifier).catch(OptionalPackage.rethrowImport)

describe("OptionalPackage", () => {
  it.effect("gives a module that is there", () =>
    Effect.gen(function* () {
      const module = yield* OptionalPackage.load("this needs", ["yaml"], importing("yaml"))
      assert.isFunction(module.parse)
    })
  )

  it.effect("says in one line what to install, for one package and for several", () =>
    Effect.gen(function* () {
      const one = yield* Effect.flip(
        OptionalPackage.load("models of x need the package", ["no-such-sdk"], importing("no-such-sdk"))
      )
      assert.deepStrictEqual(
        [one._tag, one.path, one.message],
        [
          "ConfigError",
          "no-such-sdk",
          "models of x need the package no-such-sdk, which is not installed: npm install no-such-sdk"
        ]
      )
      const two = yield* Effect.flip(
        OptionalPackage.load("pages need the packages", ["yaml", "@no-such/reader"], importing("@no-such/reader/part"))
      )
      assert.strictEqual(
        two.message,
        "pages need the packages yaml and @no-such/reader, which are not installed: npm install yaml @no-such/reader"
      )
    })
  )

  it.effect("takes no other failure for a missing package", () =>
    Effect.gen(function* () {
      for (const module of [importing("no-such-part-of-it"), () => Promise.reject(new SyntaxError("broken"))]) {
        const exit = yield* Effect.exit(OptionalPackage.load("this needs", ["yaml"], module))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      }
    })
  )
})
