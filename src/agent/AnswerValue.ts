/**
 * The value of a run with an output schema: checks the final text, asks for a corrected answer, and decodes the value.
 *
 * **Details**
 *
 * An answer that does not fit stays in the session, followed by the correction as a message of the runtime, so that the
 * conversation reads as it happened; readers of the stream see its text withdrawn. The value of the result is decoded
 * from the text that the user receives, after hooks and middleware have changed it: a guard that removes a name from
 * the text also removes it from the value.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Prompt from "effect/ai/Prompt"
import { type ConfigError, InvalidOutput, type SessionStoreError } from "../base/domain/AgentError.ts"
import * as AnswerFormat from "../base/domain/AnswerFormat.ts"
import type { ResponseFormat, StreamPart } from "../base/domain/ModelCall.ts"
import * as PartialJson from "../base/domain/PartialJson.ts"
import type { RunEvent, RunResult } from "../base/domain/RunEvent.ts"
import * as Faults from "../middleware/Faults.ts"
import { appendMessages } from "./RunConversation.ts"
import { replaceText, type RunState } from "./RunState.ts"
import type { Services } from "./Services.ts"

/** Maximum number of answers of a run that are sent back for correction, if its format names no other. */
const defaultCorrections = 2

/** Time limit for the decoder of a caller's schema. */
const decodeTimeout = Duration.seconds(30)

/** The form of the value in which a run ends, with the functions that check and read its answers. */
export interface RunAnswer {
  readonly responseFormat: ResponseFormat
  /** Tests whether a text contains JSON. */
  readonly hasJson: (text: string) => boolean
  /**
   * Checks the text in which the model ends a run. Returns true if the run can end with it. Otherwise the model is
   * asked for a corrected answer, or the run fails after the last correction.
   */
  readonly reviewAnswer: (
    run: RunState,
    text: string,
    corrections: number
  ) => Effect.Effect<boolean, InvalidOutput | SessionStoreError, Services>
  /** Adds the value to the result of a run. Fails if the final text has no value, for example after a stop. */
  readonly attachValue: (run: RunState, result: RunResult) => Effect.Effect<RunResult, InvalidOutput>
  /** Creates a reader of the value of one answer that streams. `before` is the text that the answer continues. */
  readonly makeValueReader: (before: string) => ValueReader
}

/** Decodes the value of a text. A decoder that throws or hangs is a mistake of the schema, described like any other. */
const decodeText = <A>(format: AnswerFormat.AnswerFormat<A>, text: string): Effect.Effect<A, string> => {
  const json = AnswerFormat.findJson(text)
  if (json === undefined) return Effect.fail(text.trim() === "" ? "the answer is empty" : "the answer is not JSON")
  return Effect.suspend(() => format.decode(JSON.parse(json))).pipe(
    Effect.timeoutOption(decodeTimeout),
    Effect.flatMap((decoded) =>
      Option.isSome(decoded) ? Effect.succeed(decoded.value) : Effect.fail("the schema took too long to check it")
    ),
    Effect.catchDefect((defect) => Effect.fail(`the schema failed: ${Faults.describeError(defect)}`)),
    Effect.mapError(AnswerFormat.shortenProblem)
  )
}

const makeCorrection = (format: AnswerFormat.AnswerFormat<unknown>, problem: string): Prompt.Message =>
  Prompt.userMessage({
    content: [
      Prompt.textPart({
        text:
          `Your answer does not fit the JSON Schema: ${problem}\n\nAnswer again with one JSON value alone, ` +
          `without prose or a code fence. It must match this JSON Schema:\n${JSON.stringify(format.schema)}`
      })
    ]
  })

const makeFailure = (
  { sessionId }: RunState,
  { exit, text }: Pick<RunResult, "exit" | "text">,
  problem: string,
  corrections: number
): InvalidOutput => new InvalidOutput({ sessionId, exit, text, problem, corrections })

/** Text that was accepted as the end of a run, with its value. A decoder checks each text once. */
interface AcceptedText {
  readonly text: string
  readonly value: unknown
}

const unansweredProblem = "its questions have no answers yet; resume the session with them"

/** Makes the functions that check the answers of one run. */
const makeReview = (format: AnswerFormat.AnswerFormat<unknown>): Pick<RunAnswer, "attachValue" | "reviewAnswer"> => {
  let accepted: AcceptedText | undefined
  return {
    reviewAnswer: (run, text, corrections) =>
      Effect.matchEffect(decodeText(format, text), {
        onSuccess: (value) =>
          Effect.sync(() => {
            accepted = { text, value }
            return true
          }),
        onFailure: (problem): Effect.Effect<boolean, InvalidOutput | SessionStoreError, Services> =>
          corrections >= (format.maxCorrections ?? defaultCorrections)
            ? Effect.fail(makeFailure(run, { exit: "text_response", text }, problem, corrections))
            : Effect.as(
                Effect.andThen(
                  replaceText(run, run.steps.answerStart, ""),
                  appendMessages(run, makeCorrection(format, problem))
                ),
                false
              )
      }),
    attachValue: (run, result) =>
      result.exit === "suspended"
        ? Effect.fail(makeFailure(run, result, unansweredProblem, 0))
        : accepted?.text === result.text
          ? Effect.succeed({ ...result, value: accepted.value })
          : Effect.matchEffect(decodeText(format, result.text), {
              onSuccess: (value) => Effect.succeed({ ...result, value }),
              onFailure: (problem) => Effect.fail(makeFailure(run, result, problem, 0))
            })
  }
}

/**
 * Makes the form of the value of one run. Fails with a `ConfigError` if the schema cannot be described to a model. This
 * module is loaded with the first schema.
 */
export const makeRunAnswer = (output: AnswerFormat.Output<unknown>): Effect.Effect<RunAnswer, ConfigError> =>
  Effect.map(AnswerFormat.resolveOutput(output), (format) => ({
    ...makeReview(format),
    responseFormat: { type: "json", name: format.name, schema: format.schema },
    hasJson: (text) => AnswerFormat.findJson(text) !== undefined,
    makeValueReader: (before) => makeValueReader(format, before)
  }))

/** Reader of the value of one answer that streams. */
interface ValueReader {
  /** Returns the event for the shown parts, if they changed the value. */
  readonly readParts: (parts: ReadonlyArray<StreamPart>) => ReadonlyArray<RunEvent>
  /** Begins again, because the shown text was withdrawn. */
  readonly startAgain: () => void
}

const makeValueReader = ({ unwrap }: AnswerFormat.AnswerFormat<unknown>, before: string): ValueReader => {
  const beginReader = (): PartialJson.PartialJson => {
    const reader = PartialJson.makeReader()
    PartialJson.readMore(reader, before)
    return reader
  }
  let json = beginReader()
  return {
    readParts: (parts) => {
      let text = ""
      for (const part of parts) if (part.type === "text-delta") text += part.delta
      if (text === "" || !PartialJson.readMore(json, text)) return []
      const snapshot = PartialJson.takeSnapshot(json)
      const value = unwrap === undefined ? snapshot : unwrap(snapshot)
      return value === undefined ? [] : [{ _tag: "ValueDelta", value }]
    },
    startAgain: () => {
      json = beginReader()
    }
  }
}
