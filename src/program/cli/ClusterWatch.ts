/**
 * Actions of `hermes cluster` on one run: `watch`, `cancel`, `steer`, `answer` and `retry`, from any machine that
 * reaches the database.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
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
  /^(?:there is no run|run |session |the content of run)/u.test(error.message)
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

/** Sends a message to the running turn of a session. */
export const steerRun = Effect.fn("hermes cluster steer")(
  function* ({ session, text }: { readonly session: string; readonly text: string }) {
    if (text.trim() === "") return yield* makeUsageFailure("the text is empty: say what the model should know")
    const url = yield* loadUrl
    const run = yield* Effect.provide(Cluster.steer(session, text), Cluster.layerClient({ url }))
    yield* printLine(`Sent to run ${SafeText.toLine(run)}.`)
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

/** Arguments of `hermes cluster answer`. */
interface AnswerArguments {
  readonly run: string
  readonly question: Option.Option<string>
  readonly answer: Option.Option<string>
}

/** Answers a question of a run that waits, or lists its open questions. */
export const answerRun = Effect.fn("hermes cluster answer")(
  function* ({ answer, question, run }: AnswerArguments) {
    const url = yield* loadUrl
    const services = Layer.merge(Cluster.layerClient({ url }), layerPostgres({ url, connections: 2 }))
    if (Option.isNone(question)) {
      const open = yield* Effect.provide(Cluster.questions(run), services)
      if (open.length === 0) return yield* printNote(`Run ${SafeText.toLine(run)} has no open question.`)
      return yield* Effect.forEach(open, (one) => printLine(SafeText.toJson(one)), { discard: true })
    }
    if (Option.isNone(answer)) return yield* makeUsageFailure("the answer is missing: pass it as JSON")
    const answers = [
      { questionId: question.value, answer: Json.parseOrKeep(answer.value), by: "hermes cluster answer" }
    ]
    yield* Effect.provide(Cluster.answer({ run, answers }), services)
    yield* printLine(`Question ${SafeText.toLine(question.value)} is answered.`)
  },
  Effect.catchTag("ClusterError", (error) => Effect.fail(toRunFailure(error))),
  Effect.catchTag("SessionStoreError", ({ message }) => Effect.fail(makeWorkFailure(message))),
  Effect.catchTags({
    AnswerInvalid: ({ message }) => Effect.fail(makeUsageFailure(message)),
    InvalidInput: ({ message }) => Effect.fail(makeUsageFailure(message)),
    QuestionAnswered: ({ message }) => Effect.fail(makeUsageFailure(message)),
    QuestionClosed: ({ message }) => Effect.fail(makeUsageFailure(message)),
    QuestionExpired: ({ message }) => Effect.fail(makeUsageFailure(message)),
    QuestionUnknown: ({ message }) => Effect.fail(makeUsageFailure(message)),
    SessionNotFound: ({ message }) => Effect.fail(makeUsageFailure(message))
  }),
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
