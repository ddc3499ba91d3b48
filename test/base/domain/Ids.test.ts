import { assert, describe, it } from "@effect/vitest"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
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

  it.effect("an id begins with the time in the zone of the machine", () =>
    Effect.gen(function* () {
      for (const now of ["2026-01-02T03:04:05Z", "2026-07-31T23:59:59Z"]) {
        yield* TestClock.setTime(Date.parse(now))
        const zoned = DateTime.makeZonedUnsafe(now, { timeZone: DateTime.zoneMakeLocal() })
        const { day, hour, minute, month, second, year } = DateTime.toParts(zoned)
        const [date, time] = [
          [month, day],
          [hour, minute, second]
        ].map((parts) => parts.map((part) => String(part).padStart(2, "0")).join(""))
        assert.isTrue((yield* Ids.makeSessionId).startsWith(`${year}${date}_${time}_`))
      }
    })
  )
})
