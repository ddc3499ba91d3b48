/**
 * Logs the model calls and tool calls of a run without changing them. Texts are cut and redacted.
 *
 * **Details**
 *
 * | parameter | default | |
 * | --- | --- | --- |
 * | `modelLogger` | `hermes.model` | name under which model calls are logged |
 * | `toolLogger` | `hermes.tool` | name under which tool calls are logged |
 * | `messagePreviewChars` | 120 | characters of each message |
 * | `toolPreviewChars` | 500 | characters of tool input and output |
 * | `logModelCalls` | false | logs around each model call, also without `modelLogger` |
 *
 * Without parameters both kinds of calls are logged. If only one logger is named, only its calls are logged. Lines have
 * the annotation `logger`. Parts of a streamed answer are logged at debug level.
 *
 * **Example** (Logging with the defaults)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { Logging } from "hermes-effect/middleware"
 *
 * const program = Agent.run({ prompt: "Reply exactly hello" }).pipe(
 *   Effect.provide(Runtime.layer({ middleware: [Logging.make({ toolPreviewChars: 80 })] }))
 * )
 *
 * export const main = () => Effect.runPromise(program)
 * ```
 *
 * Source: the lifecycle document, `nexau.md` §5.
 */
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Conversation from "../../base/domain/Conversation.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as Faults from "../../middleware/Faults.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as Parameters from "./Parameters.ts"

const Options = Schema.Struct({
  modelLogger: Schema.optional(Schema.NullOr(Schema.String)),
  toolLogger: Schema.optional(Schema.NullOr(Schema.String)),
  messagePreviewChars: Schema.optional(Parameters.NotNegative),
  toolPreviewChars: Schema.optional(Parameters.NotNegative),
  logModelCalls: Schema.optional(Schema.Boolean)
})

/** Options of the middleware; see the table above. */
export type Options = typeof Options.Type

/** Renders a value in one line of at most `chars` characters, without secrets. A mark shows that the value was cut. */
const renderPreview = (value: unknown, chars: number): string => {
  const text = typeof value === "string" ? value : Json.toText(value)
  const shown = Redaction.redactStart(text, chars)
  return (text.length > chars ? `${shown}… [${text.length} characters]` : shown).replaceAll(/\s+/g, " ")
}

const joinText = (parts: ReadonlyArray<{ readonly type: string }>): string =>
  parts.flatMap((part) => ("text" in part && part.type === "text" ? [String(part.text)] : [])).join("")

/** Logs before and after a model call. Parts of a streamed answer are logged at debug level. */
const logAroundCall =
  (
    log: (line: string) => Effect.Effect<void>,
    previewChars: number
  ): NonNullable<Middleware.Methods["wrapModelCall"]> =>
  (next, { task }) =>
  (params) =>
    log(
      `model call ${task === undefined ? "" : `of the task ${task} `}with ${params.call.messages.length} messages`
    ).pipe(
      Effect.andThen(
        params.call.stream
          ? next(params, {
              onPart: (parts) =>
                Effect.as(Effect.logDebug(`${parts.length} pieces: ${parts.map(({ type }) => type).join(", ")}`), parts)
            })
          : next(params)
      ),
      Effect.tap(({ response }) => {
        const text = joinText(response.parts)
        return log(text === "" ? "no text in the answer" : `answer: ${renderPreview(text, previewChars)}`)
      }),
      Effect.tapError((error) => log(`model call failed: ${renderPreview(Faults.describeError(error), previewChars)}`))
    )

const buildMiddleware = ({
  logModelCalls = false,
  messagePreviewChars = 120,
  modelLogger,
  toolLogger,
  toolPreviewChars = 500
}: Options) => {
  const isDefault = (modelLogger ?? toolLogger) === undefined || (modelLogger === null && toolLogger === null)
  const modelName = modelLogger ?? (isDefault ? "hermes.model" : undefined)
  const toolName = toolLogger ?? (isDefault ? "hermes.tool" : undefined)
  // Adding this middleware requests its log lines, so the log level of the program does not hide them.
  const makeLogger = (logger: string) => (line: string) =>
    Effect.logInfo(line).pipe(
      Effect.annotateLogs({ logger }),
      Effect.provideService(References.MinimumLogLevel, "Info")
    )
  const model = modelName === undefined ? undefined : makeLogger(modelName)
  const tool = toolName === undefined ? undefined : makeLogger(toolName)
  const around = model ?? (logModelCalls ? makeLogger("hermes.model") : undefined)
  return Middleware.lifecycle({
    name: "Logging",
    ...(model === undefined
      ? {}
      : {
          beforeModel: ({ currentIteration, messages }) =>
            model(`step ${currentIteration}: ${messages.length} messages go to the model`),
          afterModel: ({ messages, parsedResponse: { text, toolCalls }, run }) =>
            model(
              [
                `answer in ${run.sessionId}: ${text.length} characters, ${toolCalls.length} tool calls` +
                  `${toolCalls.length > 1 ? " in parallel" : ""} [${toolCalls.map(({ name }) => name).join(", ")}], ` +
                  `history of ${messages.length} messages`,
                ...messages
                  .slice(-3)
                  .map(
                    (message) =>
                      `${message.role}: ${renderPreview(Conversation.readText(message), messagePreviewChars)}`
                  )
              ].join("; ")
            )
        }),
    ...(tool === undefined
      ? {}
      : {
          beforeTool: ({ parallelExecutionId, toolCallId, toolName }) =>
            tool(`tool ${toolName} begins: ${toolCallId} of ${parallelExecutionId}`),
          afterTool: ({ isError, llmToolOutput, toolInput, toolName, toolOutput }) =>
            tool(
              `tool ${toolName} ${isError ? "failed" : "ended"}: ` +
                `input ${renderPreview(toolInput, toolPreviewChars)}; ` +
                `output ${renderPreview(toolOutput, toolPreviewChars)}` +
                (llmToolOutput === undefined ? "" : `; for the model ${renderPreview(llmToolOutput, toolPreviewChars)}`)
            )
        }),
    ...(around === undefined ? {} : { wrapModelCall: logAroundCall(around, messagePreviewChars) })
  })
}

/** Creates the middleware from unvalidated parameters. */
export const fromUnknown = (parameters: unknown): Result.Result<Middleware.LifecycleMiddleware, ConfigError> =>
  Result.map(Parameters.read("logging", Options, parameters), buildMiddleware)

/** Creates the middleware. Throws a `ConfigError` if a parameter is invalid. */
export const make = (options: Options = {}): Middleware.LifecycleMiddleware => Result.getOrThrow(fromUnknown(options))
