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
import { InvalidOutput, type SessionStoreError } from "../base/domain/AgentError.ts"
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

/** Returns the format of the model calls of a run. */
export const toResponseFormat = ({ output }: RunState): ResponseFormat =>
  output === undefined ? { type: "text" } : { type: "json", name: output.name, schema: output.schema }

/** Texts that were accepted as the end of their run, with their values. A decoder checks each text once. */
const accepted = new WeakMap<RunState, { readonly text: string; readonly value: unknown }>()

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

/**
 * Checks the text in which the model ends a run. Returns true if the run can end with it. Otherwise the model is asked
 * for a corrected answer, or the run fails after the last correction.
 */
export const reviewAnswer = (
  run: RunState,
  text: string,
  corrections: number
): Effect.Effect<boolean, InvalidOutput | SessionStoreError, Services> => {
  const { output } = run
  if (output === undefined) return Effect.succeed(true)
  return Effect.matchEffect(decodeText(output, text), {
    onSuccess: (value) =>
      Effect.sync(() => {
        accepted.set(run, { text, value })
        return true
      }),
    onFailure: (problem): Effect.Effect<boolean, InvalidOutput | SessionStoreError, Services> =>
      corrections >= (output.maxCorrections ?? defaultCorrections)
        ? Effect.fail(makeFailure(run, { exit: "text_response", text }, problem, corrections))
        : Effect.as(
            Effect.andThen(
              replaceText(run, run.steps.answerStart, ""),
              appendMessages(run, makeCorrection(output, problem))
            ),
            false
          )
  })
}

/** Adds the value to the result of a run. Fails if the final text has no value, for example after a stop. */
export const attachValue = (
  run: RunState,
  format: AnswerFormat.AnswerFormat<unknown>,
  result: RunResult
): Effect.Effect<RunResult, InvalidOutput> => {
  const known = accepted.get(run)
  if (result.exit === "suspended")
    return Effect.fail(makeFailure(run, result, "its questions have no answers yet; resume the session with them", 0))
  return known?.text === result.text
    ? Effect.succeed({ ...result, value: known.value })
    : Effect.matchEffect(decodeText(format, result.text), {
        onSuccess: (value) => Effect.succeed({ ...result, value }),
        onFailure: (problem) => Effect.fail(makeFailure(run, result, problem, 0))
      })
}

/** Reader of the value of one answer that streams. */
interface ValueReader {
  /** Returns the event for the shown parts, if they changed the value. */
  readonly readParts: (parts: ReadonlyArray<StreamPart>) => ReadonlyArray<RunEvent>
  /** Begins again, because the shown text was withdrawn. */
  readonly startAgain: () => void
}

/** Creates a reader of the value of an answer of this form. `before` is the text that the answer continues. */
export const makeValueReader = ({ unwrap }: AnswerFormat.AnswerFormat<unknown>, before: string): ValueReader => {
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
