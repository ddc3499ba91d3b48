/**
 * Rules for a session store whose medium fails: a full disk or a lost connection. Failures are typed, written data is
 * not lost, and a session continues when the medium works again.
 *
 * **Details**
 *
 * The subject is a store with two switches: `breaks` makes message writes fail, and `mends` makes them succeed again.
 * In the meantime other writes and reads may succeed, or fail with `SessionStoreError`.
 *
 * **Example** (The rules of a store over a medium that fails)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { AgentError, SessionStore } from "hermes-effect"
 * import { SessionSearch } from "hermes-effect/sessions"
 * import { Conformance, StoreFaultRules } from "hermes-effect/testing"
 *
 * const subject = Layer.effect(StoreFaultRules.Subject, Effect.gen(function*() {
 *   const store = yield* SessionStore.SessionStore
 *   const search = yield* SessionSearch.SessionSearch
 *   let isFull = false
 *   const error = new AgentError.SessionStoreError({ operation: "append", message: "the disk is full: make room" })
 *   const full = () => Effect.fail(error)
 *   const guarded: SessionStore.Service = {
 *     ...store,
 *     append: (...args) => Effect.suspend(() => isFull ? full() : store.append(...args)),
 *     continueIn: (...args) => Effect.suspend(() => isFull ? full() : store.continueIn(...args))
 *   }
 *   const breaks = Effect.sync(() => { isFull = true })
 *   const mends = Effect.sync(() => { isFull = false })
 *   return { store: guarded, search, breaks, mends }
 * })).pipe(Layer.provide(SessionStore.layerMemory))
 *
 * const results = await Effect.runPromise(Conformance.runRules(StoreFaultRules.rules, subject))
 *
 * console.log(results.filter(({ broken }) => broken !== undefined))
 * // => []
 * ```
 *
 * Source: `ARCHITECTURE.md` §6.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Agent from "../../agent/Agent.ts"
import { SessionNotFound, SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Conversation from "../../base/domain/Conversation.ts"
import { SessionId } from "../../base/domain/Ids.ts"
import * as Usage from "../../base/domain/Usage.ts"
import { Provider } from "../../models/provider/Provider.ts"
import * as Scripted from "../../models/provider/Scripted.ts"
import * as Runtime from "../../program/Runtime.ts"
import { SessionSearch } from "../../store/SessionSearch.ts"
import { type Service, SessionStore } from "../../store/SessionStore.ts"
import * as Check from "./Check.ts"
import * as Conformance from "./Conformance.ts"
import { makeAssistantMessage, makeNewSession, makeUserMessage } from "./SessionSamples.ts"

/** A session store whose medium can be made to fail. */
export interface TestedStore {
  readonly store: Service
  readonly search: SessionSearch["Service"]
  /** Makes all later message writes fail. */
  readonly breaks: Effect.Effect<void>
  /** Makes all writes succeed again. */
  readonly mends: Effect.Effect<void>
}

/** The subject of the rules for stores with a failing medium. */
export class Subject extends Context.Service<Subject, TestedStore>()("hermes-effect/testing/StoreFaultSubject") {}

const a = SessionId.make("a")
const b = SessionId.make("b")
const messages = [makeUserMessage("one"), makeAssistantMessage("two"), makeUserMessage("three")]

/** Creates a session with messages, and then breaks its store. */
const writeThenBreak = ({ breaks, store }: TestedStore) =>
  Effect.gen(function* () {
    yield* store.create(makeNewSession(a, { title: "Kept" }))
    yield* store.append(a, messages)
    yield* breaks
  })

/** Fails unless an operation succeeds, or fails with a store error that has a message. */
const checkTyped = (operation: string, exit: Exit.Exit<unknown, unknown>): void => {
  if (Exit.isSuccess(exit)) return
  const error = Option.getOrUndefined(Exit.findErrorOption(exit))
  Check.holds(
    error instanceof SessionStoreError || error instanceof SessionNotFound,
    `${operation} should fail with SessionStoreError, and came to ${Cause.pretty(exit.cause)}`
  )
  Check.holds(error instanceof Error && error.message.trim() !== "", `${operation} should say what failed`)
}

const checkAppendFails = (store: Service) =>
  Effect.map(Effect.exit(store.append(a, [makeUserMessage("lost"), makeUserMessage("lost too")])), (exit) => {
    Check.holds(Exit.isFailure(exit), "append should fail where no message can be written")
    checkTyped("append", exit)
  })

const continuation = {
  id: b,
  provider: "test",
  model: "m",
  systemPrompt: "",
  messages: [makeUserMessage("note")],
  endReason: "text_response"
}

const runThroughFault = ({ breaks, mends, search, store }: TestedStore) =>
  Effect.gen(function* () {
    const { provider } = yield* Scripted.make([
      Scripted.complete("First."),
      Scripted.complete("Second."),
      Scripted.complete("Third.")
    ])
    const layer = Runtime.layer({
      provider: Layer.succeed(Provider, provider),
      store: Layer.succeed(SessionStore, store).pipe(Layer.merge(Layer.succeed(SessionSearch, search)))
    })
    const runPrompt = (prompt: string) => Effect.exit(Agent.run({ prompt, sessionId: a }))
    return yield* Effect.gen(function* () {
      const first = yield* runPrompt("Begin.")
      yield* breaks
      const second = yield* runPrompt("Fail.")
      yield* mends
      return { first, second, third: yield* runPrompt("Go on.") }
    }).pipe(Effect.provide(layer))
  })

interface Body {
  (tested: TestedStore): Effect.Effect<void, unknown>
}

const all: ReadonlyArray<readonly [about: string, name: string, body: Body]> = [
  [
    "while it fails",
    "messages are refused with SessionStoreError",
    (tested) => Effect.andThen(writeThenBreak(tested), checkAppendFails(tested.store))
  ],
  [
    "while it fails",
    "every operation succeeds, or fails with SessionStoreError",
    (tested) =>
      Effect.gen(function* () {
        const { search, store } = tested
        yield* writeThenBreak(tested)
        const operations: Readonly<Record<string, Effect.Effect<unknown, unknown>>> = {
          create: store.create(makeNewSession(b)),
          begin: store.begin(a, ["c1"]),
          begun: store.begun(a),
          recordUsage: store.recordUsage(a, {
            provider: "p",
            model: "m",
            usage: Usage.zero,
            cost: { usd: 0, status: "included", source: "none" }
          }),
          rename: store.rename(a, "Other"),
          get: store.get(a),
          messages: store.messages(a),
          list: store.list(),
          newest: store.newest(a),
          resolve: store.resolve("a"),
          usageByModel: store.usageByModel(a),
          end: store.end(a, "text_response"),
          search: search.search("one"),
          acquire: Effect.scoped(store.acquire(b)),
          continueIn: store.continueIn(a, continuation),
          remove: store.remove(b)
        }
        for (const [name, operation] of Object.entries(operations)) checkTyped(name, yield* Effect.exit(operation))
      })
  ],
  [
    "afterwards",
    "everything is there that was written, and nothing of what was refused",
    (tested) =>
      Effect.gen(function* () {
        const { mends, store } = tested
        yield* writeThenBreak(tested)
        yield* checkAppendFails(store)
        yield* mends
        Check.equals(yield* store.messages(a), messages)
        Check.hasFields(Option.getOrThrow(yield* store.get(a)), { title: "Kept", messageCount: messages.length })
      })
  ],
  [
    "afterwards",
    "messages can be written again, behind those that are there",
    (tested) =>
      Effect.gen(function* () {
        const { mends, store } = tested
        yield* writeThenBreak(tested)
        yield* checkAppendFails(store)
        yield* mends
        Check.equals(yield* store.append(a, [makeUserMessage("four")]), messages.length)
        Check.equals(yield* store.messages(a), [...messages, makeUserMessage("four")])
      })
  ],
  [
    "afterwards",
    "a continuation that was refused has left the session as it was",
    (tested) =>
      Effect.gen(function* () {
        const { mends, store } = tested
        yield* writeThenBreak(tested)
        checkTyped("continueIn", yield* Effect.exit(store.continueIn(a, continuation)))
        yield* mends
        Check.equals(yield* store.newest(a), a)
        Check.equals(yield* store.get(b), Option.none())
        Check.hasFields(Option.getOrThrow(yield* store.get(a)), { endReason: undefined })
      })
  ],
  [
    "interruption",
    "leaves all messages of a batch, or none",
    ({ store }) =>
      Effect.gen(function* () {
        yield* store.create(makeNewSession(a))
        const batch = Array.from({ length: 50 }, (_, at) => makeUserMessage(String(at)))
        for (let turns = 0; turns < 5; turns++) {
          const before = (yield* store.messages(a)).length
          const fiber = yield* Effect.forkChild(store.append(a, batch))
          for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
          yield* Fiber.interrupt(fiber)
          const added = (yield* store.messages(a)).length - before
          Check.holds(added === 0 || added === batch.length, `${added} messages of ${batch.length} are there`)
        }
      })
  ],
  [
    "runs",
    "fail with SessionStoreError while it fails, and their session goes on afterwards",
    (tested) =>
      Effect.gen(function* () {
        const { first, second, third } = yield* runThroughFault(tested)
        Check.holds(Exit.isSuccess(first) && Exit.isSuccess(third), "runs should succeed while messages can be written")
        const error = Option.getOrUndefined(Exit.findErrorOption(second))
        Check.holds(
          error instanceof SessionStoreError,
          "a run whose messages cannot be written should fail with SessionStoreError, " +
            `and came to ${Exit.isSuccess(second) ? second.value.exit : Cause.pretty(second.cause)}`
        )
        const kept = yield* tested.store.messages(a)
        Check.equals(Conversation.closeOpenCalls(kept), kept)
        Check.equals(kept.at(-1)?.role, "assistant")
      })
  ]
]

/** The rules for stores with a failing medium. */
export const rules: ReadonlyArray<Conformance.Rule<Subject>> = all.map(([about, name, body]) =>
  Conformance.makeRule(about, name, Subject.use(body))
)
