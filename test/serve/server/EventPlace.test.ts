// Ids of events as a hostile client returns them.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as EventPlace from "../../../src/serve/server/agent/EventPlace.ts"

const refused = {
  nothing: "",
  "a number below 0": "-1",
  "a number that is too large": "99999999999999999999",
  "no cursor": "1|||running|",
  "no state": "1||||run;1",
  "another state": "1|||over|run;1",
  "another part": "1|||running|run;1|x",
  "a turn that is no number": "1|x||running|run;1",
  "a line break in the message": "1|1|m\ndata: {}\n|running|run;1",
  "a message that is too long": `1|1|${"m".repeat(10_000)}|running|run;1`
}

describe("ids of events", () => {
  for (const [name, id] of Object.entries(refused))
    it.effect(`refuses ${name}`, () =>
      Effect.map(Effect.exit(EventPlace.parseId(id)), (exit) => assert.isTrue(Exit.isFailure(exit)))
    )

  it.effect("returns what was sent", () =>
    Effect.gen(function* () {
      const message = { id: "message-7", origin: "client", prompt: "", shown: "" } as const
      const place = EventPlace.makeStart("run:1", { id: 3, message })
      const id = EventPlace.formatId({ id: 12, place })
      assert.deepStrictEqual(yield* EventPlace.parseId(id), { id: 12, place })
    })
  )
})
