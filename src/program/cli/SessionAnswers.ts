/**
 * `hermes sessions waiting` and `hermes sessions answer`: the questions of suspended runs, and their answers.
 *
 * An answer is stored with its session. `hermes chat --resume SESSION --answered` continues the run, and so do a batch
 * with `--resume` and a conversation.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Resumption from "../../agent/Resumption.ts"
import { Home } from "../../base/config/Environment.ts"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Question from "../../base/domain/Question.ts"
import * as QuestionAnswer from "../../base/domain/QuestionAnswer.ts"
import { layerSqlite, type Session, SessionStore } from "../../store/SessionStore.ts"
import { makeUsageFailure, makeWorkFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { printLine, renderTable } from "./ProgramOutput.ts"
import * as QuestionText from "./render/QuestionText.ts"
import * as SafeText from "./render/SafeText.ts"
import { forReading, readFolder, withStore, withStoredSession } from "./SessionChoice.ts"

const session = Argument.String("session").pipe(
  Argument.withDescription("Session id, id prefix, title, or latest (of this folder)")
)

const batch = Flags.makeText("batch", "RUN", "Sessions of a batch run: its directory, or its name below data/")

/** Opens the sessions of a batch run. */
const openBatch = Effect.fnUntraced(function* (run: string, readOnly: boolean) {
  const { findRunDatabase } = yield* Effect.promise(() => import("./BatchReports.ts"))
  return layerSqlite({ path: yield* findRunDatabase(run), readOnly })
})

const listOpen = Effect.map(
  SessionStore.use((store) => store.listQuestions({ limit: Number.MAX_SAFE_INTEGER })),
  (stored) => stored.map(({ question }) => question)
)

const findOpen = (run: string | undefined) =>
  run === undefined
    ? withStore<ReadonlyArray<Question.Question>, SessionStoreError>(listOpen, Effect.succeed([]), forReading)
    : Effect.flatMap(openBatch(run, forReading), (layer) => Effect.provide(listOpen, layer))

/** Runs an effect with the session selected by a reference, of a batch run or of the settings. */
const withSession = <A, E>(
  reference: string,
  run: string | undefined,
  work: (session: Session) => Effect.Effect<A, E, SessionStore>
) =>
  run === undefined
    ? withStoredSession(reference, work)
    : Effect.gen(function* () {
        const folder = yield* readFolder
        const found = Effect.flatMap(
          SessionStore.use((store) => store.resolve(reference, folder)),
          work
        )
        return yield* Effect.provide(found, yield* openBatch(run, false))
      })

/** Lists the questions that sessions wait for. */
const waiting = Command.make(
  "waiting",
  { batch, json: Flags.makeSwitch("json", "Print JSON") },
  Effect.fn("hermes sessions waiting")(function* ({ batch: run, json }) {
    const open = yield* findOpen(run)
    if (json) return yield* printLine(SafeText.toJson(open, 2))
    if (open.length === 0) return yield* printLine("No session waits for an answer")
    const now = yield* Clock.currentTimeMillis
    const sessions = Array.from(new Set(open.map(({ sessionId }) => sessionId)))
    const parts = sessions.map((id) => {
      const own = open.filter(({ sessionId }) => sessionId === id)
      return `${id}\n${renderTable(own.map((question) => ["  " + question.id, ...QuestionText.toRow(question, now)]))}`
    })
    const place = run === undefined ? "" : ` --batch ${SafeText.toLine(run)}`
    yield* printLine(`${parts.join("\n\n")}\n\nAnswer: hermes sessions answer${place} SESSION QUESTION yes|no|JSON`)
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("List the questions that suspended runs wait for"))

/** Returns the question with the id or the unique beginning of an id. */
const findQuestion = (questions: ReadonlyArray<Question.StoredQuestion>, sessionId: string, wanted: string) => {
  const exact = questions.find(({ question }) => question.id === wanted)
  const open = questions.filter(({ state }) => state === "open")
  const [first, ...others] = open.filter(({ question }) => question.id.startsWith(wanted))
  if (exact !== undefined) return Effect.succeed(exact.question)
  if (first === undefined) return Effect.fail(new Question.QuestionUnknown({ sessionId, questionId: wanted }))
  return others.length > 0
    ? Effect.fail(makeUsageFailure(`several questions begin with "${wanted}": write more of the id`))
    : Effect.succeed(first.question)
}

/** Stores the answer to a question. */
const answer = Command.make(
  "answer",
  {
    batch,
    session,
    question: Argument.String("question").pipe(
      Argument.withDescription("Id of the question, or its unique beginning (see `hermes sessions waiting`)")
    ),
    answer: Argument.String("answer").pipe(
      Argument.withDescription("yes, no, session or always for an approval; otherwise a text or JSON")
    ),
    by: Flags.takeLast(Flag.String("by").pipe(Flag.withMetavar("NAME")), "Name of the person who answers")
  },
  Effect.fn("hermes sessions answer")(function* ({ answer: typed, batch: run, by, question: wanted, session }) {
    const { id, rest, source } = yield* withSession(session, run, ({ id: named, source }) =>
      Effect.gen(function* () {
        const store = yield* SessionStore
        const id = yield* store.newest(named)
        const all = yield* store.listQuestions({
          sessionId: id,
          states: Question.State.literals,
          limit: Number.MAX_SAFE_INTEGER
        })
        const question = yield* findQuestion(all, id, wanted)
        yield* Resumption.takeAnswers(store, id, {
          answers: [{ questionId: question.id, answer: QuestionAnswer.readTyped(question, typed), by }]
        })
        return { id, rest: (yield* store.listQuestions({ sessionId: id })).length, source }
      })
    ).pipe(
      Effect.catchIf(
        (error) => error._tag === "AnswerInvalid" || error._tag === "QuestionUnknown",
        (error) => Effect.fail(makeUsageFailure(error.message))
      ),
      Effect.catchIf(
        (error) =>
          error._tag === "QuestionAnswered" || error._tag === "QuestionClosed" || error._tag === "QuestionExpired",
        (error) => Effect.fail(makeWorkFailure(error.message))
      )
    )
    const more = rest === 0 ? "" : ` ${rest === 1 ? "1 question is" : `${rest} questions are`} still open.`
    const alone = QuestionText.formatContinueCommand(id)
    const single = source === "cron" ? `hermes cron tick (\`hermes cron serve\` does it alone), or ${alone}` : alone
    const next = run === undefined ? single : "the command of the batch, and --resume"
    yield* printLine(`Answered.${more} Continue with: ${next}`)
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Answer a question of a suspended run; the run continues when it is resumed"))

/** Subcommands for the questions of suspended runs. */
export const commands = [waiting, answer] as const
