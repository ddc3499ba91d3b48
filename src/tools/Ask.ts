/**
 * Questions of tools. A tool, or a wrapper around tool calls, asks by an Effect that returns the answer. If no user
 * answers during the run, the run ends with the exit `suspended` and its questions, and the call runs again from its
 * beginning when `Agent.resume` brings the answers. Questions that were answered return their answers then.
 *
 * **Details**
 *
 * The code before a question runs once more with each answer. Wrap its effects in {@link once}, which stores their
 * results. A call must ask its questions in the same order each time. An approval holds for the title, the prompt and
 * the details that the user saw: if the call asks with others, the user is asked again.
 *
 * **Gotchas**
 *
 * The code after a question without an answer does not run, and its finalizers do. A call that a script or another
 * program makes cannot be suspended: there, only a client that is present answers (`CallQuestions.LiveAnswers`, the
 * client of an MCP server); otherwise an approval is denied, and other questions fail.
 *
 * **Example** (A payment that needs a person)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Schema from "effect/Schema"
 * import * as Tool from "effect/ai/Tool"
 * import * as Toolkit from "effect/ai/Toolkit"
 * import { Agent, Runtime, Scripted, SessionStore, Toolset } from "hermes-effect"
 * import { Ask } from "hermes-effect/tools"
 *
 * const Pay = Tool.make("pay", { parameters: Schema.Struct({ euros: Schema.Int }), success: Schema.String })
 * const toolkit = Toolkit.make(Pay)
 * const pay = Toolset.make("payments", toolkit, toolkit.toLayer({
 *   pay: ({ euros }) => Effect.map(
 *     Ask.approval({ title: `Pay ${euros} euros?` }),
 *     ({ isApproved }) => isApproved ? "paid" : "not paid"
 *   )
 * }))
 * const model = Scripted.layer([
 *   Scripted.complete({ toolCalls: [{ name: "pay", params: { euros: 7 } }] }),
 *   Scripted.complete("Done.")
 * ])
 *
 * const program = Effect.gen(function*() {
 *   const waiting = yield* Agent.run({ prompt: "Pay 7 euros.", sessionId: "invoice-7" })
 *   const answers = (waiting.questions ?? []).map(({ id }) => ({ questionId: id, answer: { choice: "once" } }))
 *   const finished = yield* Agent.resume({ sessionId: waiting.sessionId, answers })
 *   return [waiting.exit, finished.exit, finished.text]
 * })
 *
 * const runtime = Runtime.layer({ provider: model, tools: [pay], store: SessionStore.layerMemory })
 * console.log(await Effect.runPromise(Effect.provide(program, runtime)))
 * // => [ 'suspended', 'text_response', 'Done.' ]
 * ```
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as CallSuspension from "../base/domain/CallSuspension.ts"
import * as Question from "../base/domain/Question.ts"
import * as Json from "../base/domain/Json.ts"
import { redactText, redactValue } from "../base/domain/Redaction.ts"
import * as Digest from "../base/platform/Digest.ts"
import { computeExpiry } from "./approval/StoredApproval.ts"
import { type AskingCall, CurrentCall, LiveAnswers, type QuestionDraft } from "./CallQuestions.ts"

/** Error of a question that has no answer: it expired, its answer does not fit, or no question can be asked here. */
export class QuestionUnanswered extends Schema.TaggedError<QuestionUnanswered>("hermes-effect/QuestionUnanswered")(
  "QuestionUnanswered",
  { title: Schema.String, reason: Schema.Literals(["expired", "invalid", "unavailable"]), message: Schema.String }
) {}

/** Text and limits of a question. */
export interface QuestionOptions {
  /** The question in one line. */
  readonly title: string
  /** More text for the user. */
  readonly prompt?: string | undefined
  /** Data for the client that shows the question, as JSON. */
  readonly details?: unknown
  /** Time after which the question can no longer be answered. Defaults to the policy of the run. */
  readonly expiresAfter?: Duration.Input | undefined
  /** Audience of the question. Defaults to the policy of the run. */
  readonly audience?: string | undefined
}

/** Decision on a question of {@link approval}. */
export interface Approval {
  readonly isApproved: boolean
  /** Reason of a denial, if one was given. */
  readonly reason?: string | undefined
}

/** Answer to a question, or the reason why it has no answer. */
type Outcome =
  | { readonly _tag: "Answered"; readonly answer: unknown }
  | { readonly _tag: "Expired" }
  | { readonly _tag: "Unavailable"; readonly reason: string }

const withoutCall: Outcome = {
  _tag: "Unavailable",
  reason: "no question can be asked here, because the call is not a call of the model"
}
const withoutUser: Outcome = {
  _tag: "Unavailable",
  reason: 'no user answers, and questions do not suspend this run (questions: { unanswered: "deny" })'
}

/** Asks a client that is present, for the time that the policy allows. */
const askPresent = Effect.fnUntraced(function* ({ book: { policy }, tool }: AskingCall, draft: QuestionDraft) {
  const live = yield* LiveAnswers
  if (live === undefined) return undefined
  const answer = live.answer({ ...draft, tool })
  return policy.wait === undefined
    ? yield* answer
    : Option.getOrUndefined(yield* Effect.timeoutOption(answer, policy.wait))
})

/**
 * Returns the place of a question within its call. An answer holds for the question that the user saw: an approval for
 * its texts and details, and any other answer for its kind.
 */
const makePlace = (asked: number, { details, event, kind, prompt, title }: QuestionDraft): string => {
  const subject = kind === "approval" ? Digest.toHex(Json.toText([title, prompt, details]), 16) : (event ?? "")
  return [asked, kind, subject].join(":")
}

const askAs = Effect.fnUntraced(function* (
  call: AskingCall,
  makeDraft: (now: number) => QuestionDraft
): Effect.fn.Return<Outcome> {
  const { book, callId, suspension, tool } = call
  const asked = ++call.asked
  const now = yield* Clock.currentTimeMillis
  const draft = makeDraft(now)
  const place = makePlace(asked, draft)
  const known = book.findQuestion(callId, place)
  if (known?.answer !== undefined) return { _tag: "Answered", answer: known.answer.answer }
  if (known !== undefined && Question.isDue(known.question, now)) return { _tag: "Answered", answer: null }
  if (known !== undefined && Question.isExpired(known.question, now)) return { _tag: "Expired" }
  if (known !== undefined) return yield* CallSuspension.suspendCall(suspension)
  if (draft.wakeAt !== undefined && draft.wakeAt <= now) return { _tag: "Answered", answer: null }
  const live = draft.kind === "event" || draft.kind === "time" ? undefined : yield* askPresent(call, draft)
  if (live !== undefined) {
    book.addQuestion({ callId, tool, place }, draft, now, { answer: live, by: undefined })
    return { _tag: "Answered", answer: live }
  }
  if (book.policy.unanswered === "deny") return withoutUser
  book.addQuestion({ callId, tool, place }, draft, now)
  return yield* CallSuspension.suspendCall(suspension)
})

/** Asks a client that is present about a call that cannot wait, because it is not a call of the model. */
const askWithoutCall = Effect.fnUntraced(function* (
  makeDraft: (now: number) => QuestionDraft
): Effect.fn.Return<Outcome> {
  const live = yield* LiveAnswers
  const draft = makeDraft(yield* Clock.currentTimeMillis)
  if (live === undefined || draft.kind === "event" || draft.kind === "time") return withoutCall
  const answer = yield* live.answer({ ...draft, tool: "" })
  if (answer !== undefined) return { _tag: "Answered", answer }
  return live.withoutAnswer === undefined ? withoutCall : { _tag: "Unavailable", reason: live.withoutAnswer }
})

/** Asks a question in the call of the fiber. */
const askQuestion = (
  draft: Pick<QuestionDraft, "event" | "kind" | "schema" | "wakeAt"> & QuestionOptions
): Effect.Effect<Outcome> =>
  Effect.flatMap(CurrentCall, (call) => {
    const { audience, details, expiresAfter, prompt, title, ...rest } = draft
    const policy = call?.book.policy ?? {}
    const makeDraft = (now: number): QuestionDraft => ({
      ...rest,
      title: redactText(title),
      ...(prompt === undefined ? {} : { prompt: redactText(prompt) }),
      ...(details === undefined ? {} : { details: redactValue(details) }),
      // A time comes without an answer, so the policy does not limit it.
      expiresAt: computeExpiry(expiresAfter !== undefined || rest.kind === "time" ? { expiresAfter } : policy, now),
      audience: audience ?? policy.audience
    })
    return call === undefined ? askWithoutCall(makeDraft) : askAs(call, makeDraft)
  })

/** Returns the JSON of an answer, or the error of a question without one. */
const requireAnswer = (title: string, outcome: Outcome): Effect.Effect<unknown, QuestionUnanswered> => {
  switch (outcome._tag) {
    case "Answered":
      return Effect.succeed(outcome.answer)
    case "Expired":
      return Effect.fail(
        new QuestionUnanswered({ title, reason: "expired", message: `the question was not answered in time: ${title}` })
      )
    case "Unavailable":
      return Effect.fail(
        new QuestionUnanswered({ title, reason: "unavailable", message: `${title}: ${outcome.reason}` })
      )
  }
}

const makeInvalid = (title: string, problem: string): QuestionUnanswered =>
  new QuestionUnanswered({ title, reason: "invalid", message: `the answer does not fit (${title}): ${problem}` })

/** Codec whose JSON an answer is. */
type AnswerCodec<A> = Schema.ConstraintCodec<A, unknown, never, unknown>

/** The form of an answer as data: the JSON Schema that clients see, and the function that reads the JSON. */
export interface AnswerReader<A> {
  readonly schema: Question.Question["schema"]
  /** Reads the JSON of an answer. Fails with a description of its mistakes. */
  readonly decode: (json: unknown) => Effect.Effect<A, string>
}

/** Form of an answer: a codec, or a reader for a schema of another library. */
type AnswerForm<A> = AnswerCodec<A> | AnswerReader<A>

const isCodec = <A>(form: AnswerForm<A>): form is AnswerCodec<A> => Schema.isSchema(form)

const toJsonSchema = (schema: AnswerForm<unknown>): Question.Question["schema"] => {
  if (!isCodec(schema)) return schema.schema
  const { definitions, schema: root } = Schema.toJsonSchemaDocument(Schema.toCodecJson(schema))
  return Object.keys(definitions).length === 0 ? { ...root } : { ...root, $defs: definitions }
}

const decodeAs =
  <A>(schema: AnswerForm<A>, title: string) =>
  (json: unknown): Effect.Effect<A, QuestionUnanswered> =>
    isCodec(schema)
      ? Effect.mapError(Schema.decodeUnknownEffect(Schema.toCodecJson(schema))(json), ({ message }) =>
          makeInvalid(title, message)
        )
      : Effect.mapError(schema.decode(json), (problem) => makeInvalid(title, problem))

const decodeApproval = Schema.decodeUnknownOption(Question.ApprovalAnswer)

/**
 * Asks for an approval. A question that expires, and a call that cannot ask, are denials. An approval holds for this
 * call.
 */
export const approval = (options: QuestionOptions): Effect.Effect<Approval> =>
  Effect.map(
    askQuestion({ ...options, kind: "approval", schema: Question.makeApprovalSchema(["once", "deny"], false) }),
    (outcome): Approval => {
      if (outcome._tag === "Expired") return { isApproved: false, reason: "the question was not answered in time" }
      if (outcome._tag === "Unavailable") return { isApproved: false, reason: outcome.reason }
      const answer = Option.getOrUndefined(decodeApproval(outcome.answer))
      if (answer === undefined) return { isApproved: false, reason: "the answer is not an approval" }
      return { isApproved: answer.choice !== "deny", reason: answer.reason }
    }
  )

/** Asks for a value. The answer is JSON of the schema's encoded side. */
export const form = <A>(schema: AnswerForm<A>, options: QuestionOptions): Effect.Effect<A, QuestionUnanswered> =>
  Effect.suspend(() => askQuestion({ ...options, kind: "form", schema: toJsonSchema(schema) })).pipe(
    Effect.flatMap((outcome) => requireAnswer(options.title, outcome)),
    Effect.flatMap(decodeAs(schema, options.title))
  )

/** Asks for a text. */
export const text = (options: QuestionOptions): Effect.Effect<string, QuestionUnanswered> =>
  askQuestion({ ...options, kind: "text", schema: Question.textSchema }).pipe(
    Effect.flatMap((outcome) => requireAnswer(options.title, outcome)),
    Effect.flatMap((answer) =>
      typeof answer === "string" ? Effect.succeed(answer) : Effect.fail(makeInvalid(options.title, "expected a text"))
    )
  )

/** Waits for an event from outside, and returns its payload. The payload of an event without a schema is any JSON. */
export const event: {
  <A>(name: string, schema: AnswerForm<A>, options?: Partial<QuestionOptions>): Effect.Effect<A, QuestionUnanswered>
  (name: string): Effect.Effect<unknown, QuestionUnanswered>
} = (name: string, schema?: AnswerForm<unknown>, options: Partial<QuestionOptions> = {}) => {
  const title = options.title ?? `Waits for the event ${name}`
  return Effect.suspend(() =>
    askQuestion({
      ...options,
      title,
      kind: "event",
      event: name,
      schema: schema === undefined ? Question.anySchema : toJsonSchema(schema)
    })
  ).pipe(
    Effect.flatMap((outcome) => requireAnswer(title, outcome)),
    Effect.flatMap(schema === undefined ? Effect.succeed : decodeAs(schema, title))
  )
}

/** Waits until a time. The session continues with the first `Agent.resume` after it, which needs no answer. */
export const until = (
  time: DateTime.DateTime.Input,
  options: Partial<QuestionOptions> = {}
): Effect.Effect<void, QuestionUnanswered> =>
  Effect.suspend(() => {
    const wakeAt = DateTime.makeUnsafe(time)
    const title = options.title ?? `Waits until ${DateTime.formatIso(wakeAt)}`
    const draft = { ...options, title, kind: "time", schema: { type: "null" } } as const
    return Effect.asVoid(
      Effect.flatMap(askQuestion({ ...draft, wakeAt: DateTime.toEpochMillis(wakeAt) }), (outcome) =>
        requireAnswer(title, outcome)
      )
    )
  })

/**
 * Runs an effect once, also if its call runs again after a question: its result is stored, and returned from then on.
 * The result is stored as JSON, without the secrets that the runtime holds. `name` is unique within the call. In a call
 * that cannot ask, the effect runs each time.
 */
export const once = <A, E, R>(name: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(CurrentCall, (call) => {
    if (call === undefined) return effect
    const { book, callId, suspension } = call
    const known = book.findStep(callId, name)
    // A stored result is the JSON of the effect's own result.
    if (known !== undefined) return Effect.succeed(known.value as A)
    return CallSuspension.runStep(
      suspension,
      Effect.tap(effect, (value) => book.storeStep(callId, name, value))
    )
  })
