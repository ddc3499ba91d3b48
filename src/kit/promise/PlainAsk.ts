/**
 * Questions of tools as promises: the plain form of `Ask`.
 *
 * **Details**
 *
 * A promise resolves with the answer. If no user answers during the run, the run is suspended, and the promise never
 * settles: the function is abandoned at that point, its `signal` is aborted, and it runs again from its beginning when
 * `resume` brings the answers. Wrap effects before a question in `ask.once`.
 *
 * **Gotchas**
 *
 * An abandoned function cannot be stopped, so its `finally` blocks do not run. Release resources before a question, or
 * by the `signal`. Code beside the question, such as a timer in `Promise.race`, continues; its result is ignored, and
 * its later `ask.once` and questions never settle.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Codec } from "effect/Schema"
import * as Ask from "../../tools/Ask.ts"
import { CurrentCall } from "../../tools/CallQuestions.ts"
import { fromCause } from "./HermesError.ts"
import { type PlainOutput, toAnswerReader, type ValueOf } from "./PlainOutput.ts"

/**
 * Questions of a call. A question that expires, an answer that the schema refuses, and a call that cannot ask reject
 * with a `HermesError` whose tag is `QuestionUnanswered`. A promise never settles once the run is suspended.
 */
export interface ToolAsk {
  /** Asks for an approval. A question that expires, and a call that cannot ask, are denials. */
  readonly approval: (options: Ask.QuestionOptions) => Promise<Ask.Approval>
  /** Asks for a value. The answer is JSON of the schema's input, and the promise resolves with its output. */
  readonly form: <Schema extends PlainOutput>(schema: Schema, options: Ask.QuestionOptions) => Promise<ValueOf<Schema>>
  /** Asks for a text. */
  readonly text: (options: Ask.QuestionOptions) => Promise<string>
  /** Waits for an event from outside, and resolves with its payload. */
  readonly event: {
    <Schema extends PlainOutput>(
      name: string,
      schema: Schema,
      options?: Partial<Ask.QuestionOptions>
    ): Promise<ValueOf<Schema>>
    (name: string): Promise<unknown>
  }
  /** Waits until a time: the first `resume` after it continues. */
  readonly until: (time: DateTime.DateTime.Input, options?: Partial<Ask.QuestionOptions>) => Promise<void>
  /**
   * Calls a function once, also if the call runs again after a question: its result is stored as JSON, without the
   * secrets that the runtime holds, and returned from then on. `name` is unique within the call.
   */
  readonly once: <A>(name: string, work: () => A | PromiseLike<A>) => Promise<A>
}

/** Error of a function that `once` calls, which the caller of `once` receives as it is. */
class WorkFailed {
  readonly _tag = "WorkFailed"
  readonly error: unknown
  constructor(error: unknown) {
    this.error = error
  }
}

/** Returns the function that creates the questions of the call of this fiber, for the signal of its code. */
export const prepareAsk: Effect.Effect<(signal: AbortSignal) => ToolAsk> = Effect.contextWith(
  (context: Context.Context<never>) => {
    const suspension = Context.get(context, CurrentCall)?.suspension
    return Effect.succeed((signal: AbortSignal): ToolAsk => {
      const toPromise = async <A>(effect: Effect.Effect<A, unknown>): Promise<A> => {
        const exit = await Effect.runPromiseExitWith(context)(effect, { signal })
        if (suspension?.isSuspended === true) return await new Promise<never>(() => {})
        if (Exit.isSuccess(exit)) return exit.value
        const failure = Exit.findErrorOption(exit)
        if (failure._tag === "Some" && failure.value instanceof WorkFailed) throw failure.value.error
        throw fromCause(exit.cause, signal.reason)
      }
      // The types of the schema are the types of its reader.
      const readForm = (schema: PlainOutput) => toAnswerReader(schema) as Codec<never>
      return {
        approval: (options) => toPromise(Ask.approval(options)),
        form: (schema, options) => toPromise(Effect.suspend(() => Ask.form(readForm(schema), options))),
        text: (options) => toPromise(Ask.text(options)),
        event: (name: string, schema?: PlainOutput, options?: Partial<Ask.QuestionOptions>) =>
          toPromise<never>(
            // Without a schema, the payload is of unknown type.
            Effect.suspend(() =>
              schema === undefined
                ? (Ask.event(name) as Effect.Effect<never, unknown>)
                : Ask.event(name, readForm(schema), options)
            )
          ),
        until: (time, options) => toPromise(Ask.until(time, options)),
        once: (name, work) =>
          toPromise(
            Ask.once(
              name,
              Effect.tryPromise({ try: async () => await work(), catch: (error) => new WorkFailed(error) })
            )
          )
      }
    })
  }
)
