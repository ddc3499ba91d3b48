/**
 * Stores of conversations: the port `SessionStore`, and the layers that implement it.
 *
 * **Example** (Messages of a session)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Conversation, Runtime, SessionStore } from "hermes-effect"
 *
 * const program = Effect.gen(function*() {
 *   const { sessionId } = yield* Agent.run({ prompt: "Reply exactly hello" })
 *   const store = yield* SessionStore.SessionStore
 *   return (yield* store.messages(sessionId)).map(Conversation.readText)
 * })
 *
 * const runtime = Runtime.layer({ store: SessionStore.layerMemory })
 * console.log(await Effect.runPromise(Effect.provide(program, runtime)))
 * // => [ 'Reply exactly hello', 'hello' ]
 * ```
 *
 * **Example** (Sessions that survive)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime, SessionStore } from "hermes-effect"
 *
 * const runtime = Runtime.layer({ store: SessionStore.layerSqlite({ path: "state.db" }) })
 *
 * await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Reply exactly hello", source: "demo" }), runtime))
 *
 * const later = Effect.gen(function*() {
 *   const store = yield* SessionStore.SessionStore
 *   return (yield* store.list({ source: "demo" })).length
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(later, SessionStore.layerSqlite({ path: "state.db" }))))
 * // => 1
 * ```
 */
export * from "./SessionStorePort.ts"
export { layerMemory, layerMemoryWith, layerNone } from "./MemorySessionStore.ts"
export { layerPostgres, layerSqlite } from "./SessionBackend.ts"
