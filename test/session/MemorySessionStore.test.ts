import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { SessionId } from "../../src/domain/Ids.ts"
import * as SessionStore from "../../src/session/SessionStore.ts"
import { newSession, suite, user } from "../support/sessionStoreConformance.ts"

suite("MemorySessionStore", SessionStore.layerMemory)

it.effect("keeps the message objects themselves", () =>
  Effect.gen(function*() {
    const store = yield* SessionStore.SessionStore
    const message = user("hi")
    yield* store.create(newSession("s"))
    yield* store.append(SessionId.make("s"), [message])
    assert.strictEqual((yield* store.messages(SessionId.make("s")))[0], message)
  }).pipe(Effect.provide(SessionStore.layerMemory)))
