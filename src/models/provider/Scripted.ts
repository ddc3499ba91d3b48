/**
 * A model that returns the answers of a test script, in order, and records its requests. It is intended for tests of
 * applications and of this runtime: it needs no network and no key, and reads the time only from the `Clock`.
 *
 * **Details**
 *
 * A script is a list of turns, one for each request: {@link complete}, {@link fail} or {@link hang}. The model uses the
 * chat completions protocol, so hooks and middleware see the usual requests and bodies. A streamed request receives the
 * pieces of the turn one by one; each may have a delay, which `TestClock.adjust` advances.
 *
 * **Example** (A call, and the answer to its result)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Provider, Scripted } from "hermes-effect"
 *
 * const script = Scripted.layer([
 *   Scripted.complete({ toolCalls: [{ name: "read_file", params: { path: "a.txt" } }] }),
 *   Scripted.complete("It says hello.")
 * ])
 * const program = Effect.gen(function*() {
 *   const provider = yield* Provider.Provider
 *   const inspection = yield* Scripted.Inspection
 *   return [provider.info.model, yield* inspection.remaining]
 * }).pipe(Effect.provide(script))
 * ```
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as AiError from "effect/ai/AiError"
import type { ExecuteOptions, ModelCall, ModelRequest, ModelResponse } from "../../base/domain/ModelCall.ts"
import * as Route from "../../base/domain/Route.ts"
import type * as Completion from "./offline/Completion.ts"
import { route } from "./offline/ScriptRoute.ts"
import { Provider } from "./Provider.ts"
import type * as ProviderPort from "./Provider.ts"

/** A piece of streamed text with the delay before it. */
export interface Piece {
  readonly text: string
  readonly delay: Duration.Input
}

/** A tool call. If `params` is a string, it is sent unchanged, even if it is invalid JSON. */
export interface Call {
  readonly name: string
  readonly params?: unknown
  readonly id?: string
}

/** The answer of a turn. `text` defaults to the joined `pieces`. */
export interface Reply {
  readonly text?: string
  /** The pieces in which the text is streamed. Defaults to the words of `text`. */
  readonly pieces?: ReadonlyArray<string | Piece>
  readonly reasoning?: string
  readonly toolCalls?: ReadonlyArray<Call>
  /** Token counts of the turn. Missing counts are estimated from the request and the answer. */
  readonly usage?: Completion.Tokens
  readonly finishReason?: "stop" | "length" | "tool-calls" | "content-filter"
  /** Delay before the answer begins. */
  readonly delay?: Duration.Input
}

/** The outcome of one request. */
export type Turn =
  | { readonly type: "complete"; readonly said: Reply }
  | { readonly type: "fail"; readonly said: Reply; readonly error: AiError.AiError }
  | { readonly type: "hang"; readonly said: Reply }

/** Creates a turn that returns an answer. */
export const complete = (said: string | Reply): Turn => ({
  type: "complete",
  said: typeof said === "string" ? { text: said } : said
})

/** Creates a turn that fails; a streamed request first receives the content of `said`. */
export const fail = (error: AiError.AiError | AiError.AiErrorReason, said: Reply = {}): Turn => ({
  type: "fail",
  said,
  error: AiError.isAiError(error) ? error : AiError.make({ module: "Scripted", method: "execute", reason: error })
})

/**
 * Creates a turn that does not end until it is interrupted. A streamed request first receives the content of `said`.
 */
export const hang = (said: Reply = {}): Turn => ({ type: "hang", said })

/** Gives access to the requests that a script has received so far. */
export interface InspectionService {
  /** The requests that were executed. */
  readonly requests: Effect.Effect<ReadonlyArray<ModelRequest>>
  /** The model calls from which requests were prepared. */
  readonly calls: Effect.Effect<ReadonlyArray<ModelCall>>
  /** Number of turns that have not been used yet. */
  readonly remaining: Effect.Effect<number>
  /** Number of requests that were interrupted before they ended. */
  readonly interruptions: Effect.Effect<number>
}

/** Service for inspecting the requests of a script. */
export class Inspection extends Context.Service<Inspection, InspectionService>()(
  "hermes-effect/provider/Scripted/Inspection"
) {}

/** The services that the layer of a script provides. */
export interface Script {
  readonly provider: ProviderPort.Service
  readonly inspection: InspectionService
}

const makeExhaustedError = (turns: number, turn: number): AiError.AiError => {
  const count = turns === 1 ? "1 turn" : `${turns} turns`
  return AiError.make({
    module: "Scripted",
    method: "execute",
    reason: new AiError.InvalidRequestError({
      description: `the script is exhausted: it has ${count} and was asked for turn ${turn}`
    })
  })
}

const loadPlayback = Effect.promise(() => import("./offline/ScriptPlayback.ts"))

type Playback = Effect.Success<typeof loadPlayback>

/** Creates a script. Without the code that plays it, its first request loads that code. */
const makeScript = (turns: ReadonlyArray<Turn>, loaded?: Playback): Effect.Effect<Script> =>
  Effect.sync(() => {
    const withPlayback = <A, E>(play: (playback: Playback) => Effect.Effect<A, E>): Effect.Effect<A, E> =>
      loaded === undefined ? Effect.flatMap(loadPlayback, play) : play(loaded)
    const requests: Array<ModelRequest> = []
    const calls: Array<ModelCall> = []
    let interruptions = 0
    const execute = (request: ModelRequest, options?: ExecuteOptions): Effect.Effect<ModelResponse, AiError.AiError> =>
      Effect.suspend(() => {
        requests.push(request)
        const number = requests.length
        const turn = turns[number - 1]
        if (turn === undefined) return Effect.fail(makeExhaustedError(turns.length, number))
        return Effect.onInterrupt(
          withPlayback(({ playTurn }) => playTurn(turn, number, request, options?.onPart)),
          () => Effect.sync(() => void interruptions++)
        )
      })
    return {
      provider: {
        info: Route.toInfo(route),
        apiMode: route.apiMode,
        prepare: (call) =>
          Effect.suspend(() => {
            // The messages are copied because a run may append to the same array later.
            calls.push({ ...call, messages: [...call.messages] })
            return withPlayback(({ prepareRequest }) => Effect.succeed(prepareRequest(call)))
          }),
        execute,
        decode: (raw) => withPlayback(({ decodeBody }) => decodeBody(raw))
      },
      inspection: {
        requests: Effect.sync(() => [...requests]),
        calls: Effect.sync(() => [...calls]),
        remaining: Effect.sync(() => Math.max(0, turns.length - requests.length)),
        interruptions: Effect.sync(() => interruptions)
      }
    }
  })

/** Creates a script that begins at its first turn. Its first request loads the code that plays it. */
export const make = (turns: ReadonlyArray<Turn>): Effect.Effect<Script> => makeScript(turns)

/** Provides a script as the run's `Provider`, and an `Inspection` of the requests that it received. */
export const layer = (turns: ReadonlyArray<Turn>): Layer.Layer<Provider | Inspection> =>
  Layer.effectContext(
    // Loaded with the layer, so that a request of a test waits for its clock and nothing else.
    Effect.flatMap(loadPlayback, (playback) =>
      Effect.map(makeScript(turns, playback), ({ inspection, provider }) =>
        Context.make(Provider, provider).pipe(Context.add(Inspection, inspection))
      )
    )
  )
