/**
 * Stores facts about endpoints between runs: which endpoints do not answer requests about their models, and which
 * window a local server has.
 *
 * **Details**
 *
 * The file is `cache/endpoints.json` in the home directory. It may be lost without harm, because its facts are
 * discovered again. Expired entries are ignored, since servers change. If two processes write at the same time, at most
 * one entry is lost.
 *
 * Source: `hermes-llm.md` §10.1.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { ServedWindow } from "./ModelLists.ts"
import * as HomeFile from "../HomeFile.ts"

/** Stores facts about endpoints. Endpoints are identified by base URL. */
export interface EndpointMemory {
  /** Returns whether the endpoint recently did not answer a request about its models. */
  readonly isSilent: (baseUrl: string) => Effect.Effect<boolean>
  /** Stores whether the endpoint answers requests about its models. */
  readonly setSilent: (baseUrl: string, silent: boolean) => Effect.Effect<void>
  /**
   * Returns the window of a model on a local server: `null` if the server does not report it, `undefined` if unknown.
   */
  readonly window: (server: string) => Effect.Effect<ServedWindow | null | undefined>
  readonly setWindow: (server: string, window: ServedWindow | null) => Effect.Effect<void>
}

const Silent = Schema.Struct({ at: Schema.Finite })
const Served = Schema.Struct({ at: Schema.Finite, window: Schema.NullOr(ServedWindow) })
const EndpointFacts = Schema.Struct({
  version: Schema.Literal(1),
  silent: Schema.Record(Schema.String, Silent),
  windows: Schema.Record(Schema.String, Served).pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))
})
type EndpointFacts = typeof EndpointFacts.Type
const KnownText = Schema.fromJsonString(EndpointFacts)

/** Milliseconds after which an endpoint that did not answer is asked about its models again. */
const silentAge = 30 * 60_000
/** Milliseconds after which a local server is asked for its window again. It may serve another model by then. */
const windowAge = 5 * 60_000
const nothing: EndpointFacts = { version: 1, silent: {}, windows: {} }

const selectRecent = <A extends { readonly at: number }>(
  all: Readonly<Record<string, A>>,
  age: number,
  now: number
): Record<string, A> => Object.fromEntries(Object.entries(all).filter(([, { at }]) => at <= now && now - at < age))

const findOwn = <A>(all: Readonly<Record<string, A>>, key: string): A | undefined =>
  Object.hasOwn(all, key) ? all[key] : undefined

const makeOverFile = ({ load, save }: HomeFile.Memory<EndpointFacts>): Effect.Effect<EndpointMemory> =>
  Effect.gen(function* () {
    const writing = yield* Semaphore.make(1)
    const first = yield* Effect.cached(load)
    let known: EndpointFacts | undefined

    const current = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const { silent, windows } = known ?? (yield* first)
      known = {
        version: 1,
        silent: selectRecent(silent, silentAge, now),
        windows: selectRecent(windows, windowAge, now)
      }
      return { ...known, now }
    })

    /** Changes the stored facts, including entries that other processes have written in the meantime. */
    const changeFacts = (next: (known: EndpointFacts, now: number) => EndpointFacts): Effect.Effect<void> =>
      writing.withPermit(
        Effect.gen(function* () {
          const { now } = yield* current
          const stored = yield* load
          const before = known ?? nothing
          known = next(
            {
              version: 1,
              silent: { ...stored.silent, ...before.silent },
              windows: { ...stored.windows, ...before.windows }
            },
            now
          )
          yield* save(known)
        })
      )

    return {
      isSilent: (baseUrl) => Effect.map(current, ({ silent }) => findOwn(silent, baseUrl) !== undefined),
      setSilent: (baseUrl, silent) =>
        changeFacts((known, now) => ({
          ...known,
          silent: silent
            ? { ...known.silent, [baseUrl]: { at: now } }
            : Object.fromEntries(Object.entries(known.silent).filter(([other]) => other !== baseUrl))
        })),
      window: (server) => Effect.map(current, ({ windows }) => findOwn(windows, server)?.window),
      setWindow: (server, window) =>
        changeFacts((known, now) => ({ ...known, windows: { ...known.windows, [server]: { at: now, window } } }))
    }
  })

/** Opens the memory in a home directory, which need not exist yet. The file is read on first use. */
export const openFile = (home: string): Effect.Effect<EndpointMemory, never, FileSystem.FileSystem | Path.Path> =>
  Effect.flatMap(HomeFile.makeMemory(home, "cache/endpoints.json", KnownText, nothing), makeOverFile)

/** Maximum time that a call waits for the model list of a user's own endpoint. */
const patience = "1 second"

/** Sends requests about models to endpoints. */
interface Asker {
  /**
   * Executes a request to an endpoint. A slow request continues in the background while the call proceeds without its
   * result. Other calls do not use the endpoint for some time: it counts as silent until it answers.
   */
  readonly getAsked: <A>(
    baseUrl: string,
    what: string,
    ask: Effect.Effect<A | undefined>
  ) => Effect.Effect<A | undefined>
  /** Number of endpoints that answered after their call had proceeded without the result. */
  readonly late: () => number
}

/**
 * Creates an asker. Requests that continue in the background end with `scope`. Without a memory, the asker stores the
 * facts only in this process.
 */
export const makeAsker = (
  endpoints: Pick<EndpointMemory, "isSilent" | "setSilent"> | undefined,
  scope: Scope.Scope | undefined
): Asker => {
  /** Pending requests by their key. */
  const asking = new Map<string, Fiber.Fiber<unknown>>()
  const silentHere = new Set<string>()
  let late = 0
  const isSilent = endpoints?.isSilent ?? ((baseUrl) => Effect.sync(() => silentHere.has(baseUrl)))
  const setSilent =
    endpoints?.setSilent ??
    ((baseUrl, silent) => Effect.sync(() => void (silent ? silentHere.add(baseUrl) : silentHere.delete(baseUrl))))
  return {
    late: () => late,
    getAsked: <A>(baseUrl: string, what: string, ask: Effect.Effect<A | undefined>) =>
      Effect.gen(function* () {
        if (yield* isSilent(baseUrl)) return undefined
        const key = `${what}@${baseUrl}`
        let told = false
        const work = Effect.ensuring(
          Effect.tap(ask, (found) => {
            if (!told || found === undefined) return Effect.void
            late++
            return setSilent(baseUrl, false)
          }),
          Effect.sync(() => asking.delete(key))
        )
        // The cast is safe: a fiber with the same key executes the same request, so its result has the same type.
        let fiber = asking.get(key) as Fiber.Fiber<A | undefined> | undefined
        if (fiber === undefined) {
          const now = { startImmediately: true }
          fiber = yield* scope === undefined ? Effect.forkDetach(work, now) : Effect.forkIn(work, scope, now)
          if (fiber.pollUnsafe() === undefined) asking.set(key, fiber)
        }
        const found = yield* Effect.timeoutOption(Fiber.join(fiber), patience)
        if (Option.isSome(found)) return found.value
        told = true
        yield* setSilent(baseUrl, true)
        return undefined
      })
  }
}
