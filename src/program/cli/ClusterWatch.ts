/**
 * Actions of `hermes cluster` on one run: `watch`, `cancel` and `retry`, from any machine that reaches the database.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import type { Entry } from "../../base/domain/RecordEvent.ts"
import * as Conversation from "../../base/domain/Conversation.ts"
import * as Json from "../../base/domain/Json.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as Cluster from "../../serve/cluster/Cluster.ts"
import { layerPostgres } from "../../store/SessionStore.ts"
import * as ClusterSettings from "./ClusterSettings.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { makeUsageFailure, makeWorkFailure } from "./Failure.ts"
import { printLine, printNote, printWarnings } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const loadUrl = Effect.gen(function* () {
  const { settings, warnings } = yield* CommandSettings.load
  yield* printWarnings(warnings)
  return yield* ClusterSettings.requireDatabaseUrl(settings)
})

/** Reports a run that is unknown, or in a state that the command does not accept, as bad input. */
const toRunFailure = (error: Cluster.ClusterError) =>
  /^(?:there is no run|run |the content of run)/u.test(error.message)
    ? makeUsageFailure(error.message)
    : ClusterSettings.toClusterFailure(error)

/** Cancels a run. */
export const cancelRun = Effect.fn("hermes cluster cancel")(
  function* ({ run }: { readonly run: string }) {
    const url = yield* loadUrl
    const isCancelled = yield* Effect.provide(Cluster.cancel(run), Cluster.layerClient({ url }))
    yield* isCancelled
      ? printLine(`Run ${SafeText.toLine(run)} is cancelled.`)
      : printNote(`Run ${SafeText.toLine(run)} was over already.`)
  },
  Effect.catchTag("ClusterError", (error) => Effect.fail(toRunFailure(error))),
  Effect.provide(CommandSettings.surroundings)
)

/** Starts a failed run again. */
export const retryRun = Effect.fn("hermes cluster retry")(
  function* ({ run }: { readonly run: string }) {
    const url = yield* loadUrl
    const id = yield* Effect.provide(Cluster.retry(run), Cluster.layerClient({ url }))
    yield* printLine(SafeText.toLine(id))
  },
  Effect.catchTag("ClusterError", (error) => Effect.fail(toRunFailure(error))),
  Effect.provide(CommandSettings.surroundings)
)

/** Maximum number of characters of arguments in a line. */
const longestArguments = 200

/** Returns the line of an entry, or `undefined` for an entry that a reader does not need. */
const renderEntry = ({ event }: Entry): string | undefined => {
  switch (event._tag) {
    case "RunStarted":
      return `started with ${event.model}`
    case "MessageAppended": {
      const text = event.message?.role === "assistant" ? Conversation.readText(event.message) : ""
      return text === "" ? undefined : text
    }
    case "CallStarted":
      return `\u2192 ${event.name} ${TextCut.shorten(Json.toText(event.args), longestArguments)}`
    case "CallEnded":
      return `\u2190 ${event.name}: ${event.status}`
    case "ChildStarted":
      return `child: ${event.goal}`
    case "RunEnded":
      return `ended: ${event.exit}`
    default:
      return undefined
  }
}

/** Follows a run until it is over. With `json`, each entry of the run record is a line. */
export const watchRun = Effect.fn("hermes cluster watch")(
  function* ({ json, run }: { readonly json: boolean; readonly run: string }) {
    const url = yield* loadUrl
    const services = Layer.merge(Cluster.layerClient({ url }), layerPostgres({ url, connections: 2 }))
    const outcome = yield* Effect.gen(function* () {
      yield* Stream.runForEach(Cluster.watch(run), ({ entry, sequence }) => {
        if (json) return printLine(SafeText.toJson({ sequence, ...entry }))
        const line = renderEntry(entry)
        return line === undefined ? Effect.void : printLine(SafeText.sanitise(line))
      })
      return (yield* (yield* Cluster.Cluster).outcomes([run])).get(run)
    }).pipe(Effect.provide(services))
    if (outcome?.status === "failed") return yield* makeWorkFailure(outcome.message ?? "the run failed")
  },
  Effect.catchTag("ClusterError", (error) => Effect.fail(toRunFailure(error))),
  Effect.catchTag("SessionStoreError", ({ message }) => Effect.fail(makeWorkFailure(message))),
  Effect.provide(CommandSettings.surroundings)
)
