import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Ids from "../../../src/base/domain/Ids.ts"

describe("Ids", () => {
  it.effect("sessions that begin in the same second never share an id", () =>
    Effect.gen(function* () {
      // So many that six hex digits would repeat: the odds against it are one to e¹¹.
      const ids = yield* Effect.all(Array.from({ length: 20_000 }, () => Ids.makeSessionId))
      assert.strictEqual(new Set(ids).size, ids.length)
      assert.match(ids[0] ?? "", /^\d{8}_\d{6}_[0-9a-f]{6}$/)
    })
  )
})
