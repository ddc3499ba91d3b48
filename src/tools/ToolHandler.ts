/**
 * Runs the handler of an `effect/ai` tool: decodes the arguments, runs the handler in its own context and encodes the
 * result. The checks and failures are the same as in `Toolkit.handle`, without a queue, fiber and stream for each call.
 * The codecs are created once for each tool.
 *
 * **Details**
 *
 * A handler that reports a preliminary result waits until the result is delivered; reports after the handler's end are
 * discarded.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import * as AiError from "effect/ai/AiError"
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as RunSurroundings from "../base/domain/RunSurroundings.ts"
import * as ToolContent from "../base/domain/ToolContent.ts"
import { ToolFailed, type ToolOutput } from "../base/domain/ToolOutput.ts"

/** Receives preliminary results in their encoded form. */
export type OnProgress = (output: unknown) => Effect.Effect<void>

/**
 * Decodes the arguments of one call and runs its handler. Fails with the typed failures of the decoding and the
 * handler.
 */
export type Handle = (
  params: unknown,
  callId: string,
  onProgress: OnProgress | undefined
) => Effect.Effect<ToolOutput, unknown>

/** A toolkit with bound handlers. Tools are looked up by name at run time, so the exact type is not needed. */
export type BoundToolkit = Toolkit.WithHandler<Record<string, Tool.Any>>

type Encode = (value: unknown) => Effect.Effect<unknown, AiError.AiError>

/**
 * A preliminary result that does not match its schema. It ends the call, and the handler cannot catch it as a failure.
 */
class UnfitProgress extends Error {
  override readonly name = "UnfitProgress"
  readonly error: AiError.AiError
  constructor(error: AiError.AiError) {
    super(error.message)
    this.error = error
  }
}

const makeFailure = (tool: string, reason: AiError.AiErrorReason): AiError.AiError =>
  AiError.make({ module: "Toolkit", method: `${tool}.handle`, reason })

/** The codecs use the services of the handler, which are provided at run time. */
const withoutServices = <A, E>(effect: Effect.Effect<A, E, unknown>): Effect.Effect<A, E> =>
  effect as Effect.Effect<A, E>

const makeEncoder = (tool: string, schema: Schema.Top): Encode => {
  const encode = Schema.encodeUnknownEffect(schema)
  return (value) =>
    withoutServices(
      Effect.mapErrorEager(encode(value), ({ message }) =>
        makeFailure(
          tool,
          new AiError.ToolResultEncodingError({ toolName: tool, toolResult: value, description: message })
        )
      )
    )
}

const makeErrorNormalizer =
  (tool: string) =>
  (error: unknown): unknown => {
    if (Schema.isSchemaError(error)) {
      return makeFailure(
        tool,
        new AiError.InvalidToolResultError({
          toolName: tool,
          description: `Tool handler returned invalid result: ${error.message}`
        })
      )
    }
    return AiError.isAiErrorReason(error) ? makeFailure(tool, error) : error
  }

/** Returns the images and files of a result for the model, if the result is `ToolContent`. */
const readContent = (result: unknown): ToolOutput["modelOutput"] =>
  ToolContent.isToolContent(result) ? ToolContent.toModelOutput(result) : undefined

/**
 * Creates the functions that encode the result of a call. A failure is encoded as a result if the tool returns failures
 * (`failureMode: "return"`).
 */
const makeResultEncoders = (tool: Tool.Any) => {
  const { failureMode, name, toModelOutput } = tool
  const encodeSuccess = makeEncoder(name, tool.successSchema)
  const encodeFailure = makeEncoder(name, Tool.failureResultSchema(tool))
  const normalize = makeErrorNormalizer(name)
  return {
    succeeded: (result: unknown): Effect.Effect<ToolOutput, unknown> =>
      Effect.mapEager(encodeSuccess(result), (output) => ({
        output,
        isFailure: false,
        modelOutput: toModelOutput?.(result) ?? readContent(result)
      })),
    failed: (cause: Cause.Cause<unknown>): Effect.Effect<ToolOutput, unknown> => {
      const reason = cause.reasons.find(Cause.isFailReason)
      if (reason === undefined) {
        const unfit = cause.reasons.flatMap((died) =>
          Cause.isDieReason(died) && died.defect instanceof UnfitProgress ? [died.defect] : []
        )[0]
        return unfit === undefined ? Effect.failCause(cause) : Effect.fail(unfit.error)
      }
      const error = normalize(reason.error)
      // A failure to decode the arguments or encode the result is not an answer of the tool.
      return failureMode === "error" || AiError.isAiError(error)
        ? Effect.fail(error)
        : Effect.map(encodeFailure(error), (output) => ({ output, isFailure: true, modelOutput: undefined }))
    }
  }
}

const ignoreProgress: OnProgress = () => Effect.void

/**
 * Binds the handler that a toolkit's layer created for a tool. Services of the call take precedence over `services`,
 * and `services` take precedence over the handler's own services.
 */
export const make = (tool: Tool.Any, handlers: Context.Context<never>, services: Context.Context<never>): Handle => {
  const { name, parametersSchema } = tool
  const decode = Schema.isSchema(parametersSchema) ? Schema.decodeUnknownEffect(parametersSchema) : Effect.succeed
  const encodeProgress = makeEncoder(name, tool.successSchema)
  const { failed, succeeded } = makeResultEncoders(tool)
  const { context, handler } = Context.getUnsafe(handlers, Context.Service<Tool.Handler<string>>(tool.id))
  const own = Context.merge(context, services)
  // The call's context already contains most services. Adding the missing services costs less than merging both
  // contexts.
  const addServices = RunSurroundings.makeAddition(own)
  const refuseArguments = ({ message }: { readonly message: string }): Effect.Effect<never, AiError.AiError> =>
    Effect.fail(makeFailure(name, new AiError.ToolParameterValidationError({ toolName: name, description: message })))

  return (params, toolCallId, onProgress = ignoreProgress) => {
    let surroundings = own
    let over = false
    // A handler may report from any fiber; the receivers of the report belong to the run.
    const reportPreliminary = (result: unknown): Effect.Effect<void> =>
      Effect.suspend(() =>
        over
          ? Effect.void
          : Effect.flatMap(
              Effect.catch(encodeProgress(result), (error) => Effect.die(new UnfitProgress(error))),
              onProgress
            )
      ).pipe(Effect.provideContext(surroundings))
    const callHandler = (value: unknown): Effect.Effect<unknown, unknown> => {
      try {
        return handler(value, { toolCallId, preliminary: reportPreliminary })
      } catch (defect) {
        return Effect.die(defect)
      }
    }
    const run = (value: unknown): Effect.Effect<ToolOutput, unknown> =>
      Effect.matchCauseEffectEager(callHandler(value), {
        onFailure: (cause) => {
          over = true
          return failed(cause)
        },
        onSuccess: (result) => {
          over = true
          return succeeded(result)
        }
      })
    const handleCall = (): Effect.Effect<ToolOutput, unknown> => {
      const decoded = Effect.catchEager(withoutServices(decode(params)), refuseArguments)
      const ran = Effect.flatMapEager(decoded, run)
      return Context.getOrUndefined(surroundings, Tracer.ParentSpan) === undefined
        ? ran
        : Effect.andThen(Effect.annotateCurrentSpan({ tool: name, parameters: params }), ran)
    }
    return Effect.withFiber((fiber) => {
      surroundings = addServices(fiber.context)
      return surroundings === fiber.context
        ? handleCall()
        : Effect.updateContext(Effect.suspend(handleCall), () => surroundings)
    })
  }
}

/** Runs a tool of a toolkit that does not expose its handlers. */
export const fromToolkit =
  (tool: Tool.Any, handled: BoundToolkit, services: Context.Context<never>): Handle =>
  (params, callId, onProgress) => {
    let last: Tool.HandlerResult<Tool.Any> | undefined
    return withoutServices(handled.handle(tool.name, params, callId)).pipe(
      Effect.flatMap((results) =>
        Stream.runForEach(results as Stream.Stream<Tool.HandlerResult<Tool.Any>, unknown>, (result) => {
          if (result.preliminary) return onProgress === undefined ? Effect.void : onProgress(result.encodedResult)
          last = result
          return Effect.void
        })
      ),
      Effect.flatMap((): Effect.Effect<ToolOutput, unknown> => {
        if (last === undefined) {
          return Effect.fail(new ToolFailed({ tool: tool.name, phase: "result", message: "the tool returned nothing" }))
        }
        // For a tool that returns its failures, `Toolkit.handle` also returns failures to decode the arguments or
        // encode the result. These are not answers of the tool.
        if (last.isFailure && AiError.isAiError(last.result)) return Effect.fail(last.result)
        const { encodedResult: output, isFailure, modelOutput, result } = last
        return Effect.succeed({ output, isFailure, modelOutput: modelOutput ?? readContent(result) })
      }),
      Effect.updateContext((call: Context.Context<never>) => Context.merge(services, call))
    )
  }
