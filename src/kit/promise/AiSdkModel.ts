/**
 * An agent as a language model of the AI SDK (`ai`): `generateText`, `streamText` and the hooks of its user interface
 * use a whole run, with its tools. Specification v4 (AI SDK 7) is the default; `specificationVersion` selects v3 (AI
 * SDK 6) or v2 (AI SDK 5).
 *
 * **Details**
 *
 * Text and reasoning are streamed during the run; `generateText` also streams from the model. The agent runs its own
 * tools: each call is a provider-executed, dynamic tool part with its result, so that the AI SDK shows it but does not
 * run it. The usage covers the whole run; the finish reason is `stop` for a completed run, `length` for a run that was
 * ended by a limit. `providerMetadata.hermes` contains the session, the exit and the cost.
 *
 * A run that is suspended (`questions: { unanswered: "suspend" }`) ends with the finish reason `tool-calls` and with
 * the AI SDK's parts for approvals, which `useChat` shows and answers. A call whose prompt ends in those answers
 * continues the run; see `AiSdkApprovals`. Other questions are in `providerMetadata.hermes.questions`, for
 * `hermes.resume`.
 *
 * The conversation in the prompt starts a new session. With `providerOptions: { hermes: { sessionId } }` the run
 * continues that session, or starts it with the conversation. If the two differ, or if an answer is regenerated, the
 * messages of the prompt are used, and a warning names the session of the run (see `AiSdkSession`). System messages
 * follow the agent's own instructions, for this run only. An aborted call interrupts the run.
 *
 * With `whenLeft: "continue"`, a run goes on when the reader of its stream leaves, for example because a page is
 * reloaded; {@link runningModel} returns it to the next reader.
 *
 * A call that asks for an object (`Output.object`) is a run with an output: its answer is checked and corrected, and
 * its text is streamed when it is accepted; see `AiSdkOutput`. An answer that never fits rejects with `InvalidOutput`.
 *
 * **Gotchas**
 *
 * Settings that belong to the agent (temperature, output limits, the caller's tools) are ignored with a warning: pass
 * them to `createHermes`. Text that a run retracts remains in the stream, followed by its replacement. In v2 the
 * agent's tool calls are left out, because the AI SDK 5 fails at a call to an unknown tool.
 *
 * **Example** (Text of an agent)
 *
 * ```ts
 * import { generateText } from "ai"
 * import { languageModel } from "hermes-effect/ai-sdk"
 * import { createHermes } from "hermes-effect/promise"
 *
 * const hermes = createHermes({ model: "offline" })
 *
 * const { text, finishReason } = await generateText({ model: languageModel(hermes), prompt: "Reply exactly hello" })
 * await hermes.dispose()
 *
 * console.log(text, finishReason)
 * // => hello stop
 * ```
 *
 * Source: `ARCHITECTURE.md` §4.
 */
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  SharedV4Warning
} from "@ai-sdk/provider"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import type { ReasoningEffort } from "../../base/domain/ModelCall.ts"
import * as AiSdkApprovals from "./AiSdkApprovals.ts"
import * as AiSdkConversation from "./AiSdkConversation.ts"
import * as AiSdkEvents from "./AiSdkEvents.ts"
import { toV2, toV3, type Specifications } from "./AiSdkOlderModel.ts"
import * as AiSdkOutput from "./AiSdkOutput.ts"
import * as AiSdkSession from "./AiSdkSession.ts"
import type { HermesView } from "./CreateHermes.ts"
import type { HermesInput } from "./HermesOptions.ts"
import { HermesError } from "./HermesError.ts"
import type { ContextOption } from "./PlainContext.ts"
import { findPerformer } from "./HermesServices.ts"
import type * as PlainStreams from "./PlainStreams.ts"

/** Names of the agent in the AI SDK, and settings of each of its runs. */
export interface LanguageModelOptions<Version extends keyof Specifications = keyof Specifications> extends Pick<
  HermesInput,
  "budget" | "context" | "cwd" | "maxIterations" | "questions" | "source" | "tools" | "whenLeft"
> {
  /** Version of the specification: `v4` for AI SDK 7, `v3` for 6, `v2` for 5. Default: `v4`. */
  readonly specificationVersion?: Version | undefined
  /** Model id. Default: `agent`. */
  readonly modelId?: string | undefined
  /** Provider name. Default: `hermes`. */
  readonly provider?: string | undefined
}

/** State of one language model, shared by its calls. */
interface ModelState {
  readonly settings: LanguageModelOptions
  readonly branches: AiSdkSession.Branches
  /** Cursor of the run whose events the model returns, instead of starting one. */
  readonly watched?: PlainStreams.WatchInput | undefined
}

const allBranches = new WeakMap<HermesView, AiSdkSession.Branches>()

/** Returns the copies of sessions that calls of a runtime have made. */
const findBranches = (hermes: HermesView): AiSdkSession.Branches => {
  const known = allBranches.get(hermes) ?? new Map()
  allBranches.set(hermes, known)
  return known
}

const efforts: Readonly<
  Record<Exclude<NonNullable<LanguageModelV4CallOptions["reasoning"]>, "provider-default">, ReasoningEffort>
> = { none: "none", minimal: "minimal", low: "low", medium: "medium", high: "high", xhigh: "xhigh", max: "xhigh" }

/** Settings that a caller may pass but a run does not support. */
const ofAgent = [
  "maxOutputTokens",
  "temperature",
  "stopSequences",
  "topP",
  "topK",
  "presencePenalty",
  "frequencyPenalty"
] as const

const listWarnings = (options: LanguageModelV4CallOptions): ReadonlyArray<SharedV4Warning> => [
  ...ofAgent.flatMap((name): ReadonlyArray<SharedV4Warning> =>
    options[name] === undefined
      ? []
      : [{ type: "unsupported", feature: name, details: "a setting of the agent: give it to createHermes" }]
  ),
  ...((options.tools ?? []).length === 0
    ? []
    : [
        {
          type: "unsupported",
          feature: "tools",
          details: "the agent runs its own tools: give yours to createHermes"
        } as const
      ]),
  ...(options.reasoning === "max"
    ? [{ type: "compatibility", feature: "reasoning max", details: "the highest effort is xhigh" } as const]
    : []),
  ...AiSdkOutput.listOutputWarnings(options.responseFormat)
]

const readSession = ({ providerOptions }: LanguageModelV4CallOptions): string | undefined => {
  const given = providerOptions?.["hermes"]?.["sessionId"]
  if (given === undefined || typeof given === "string") return given
  throw new HermesError("InvalidInput", "providerOptions.hermes.sessionId must be a string: the id of a session")
}

/** Finds the session of a call that names a session. */
const placeCallIn = async (
  hermes: HermesView,
  call: AiSdkSession.NamedCall,
  branches: AiSdkSession.Branches
): Promise<AiSdkSession.PlacedCall> => {
  const perform = findPerformer(hermes)
  return perform === undefined
    ? {
        input: { sessionId: call.sessionId },
        warning:
          call.history.length === 0
            ? undefined
            : "only the last message is sent: the runtime is not one of createHermes"
      }
    : await perform(AiSdkSession.placeCall(call, branches))
}

/** Returns the options of a run that are independent of its message. */
const toSettings = (
  options: LanguageModelV4CallOptions,
  { modelId: _, provider: __, specificationVersion: ___, ...run }: LanguageModelOptions
) => {
  const system = AiSdkConversation.readSystem(options.prompt)
  const output = AiSdkOutput.findOutput(options.responseFormat)
  const { reasoning = "provider-default" } = options
  return {
    ...run,
    ...(system.length === 0 ? {} : { ephemeralSystemPrompt: system.join("\n\n") }),
    ...(output === undefined ? {} : { output }),
    ...(options.seed === undefined ? {} : { seed: options.seed }),
    ...(reasoning === "provider-default" ? {} : { reasoningEffort: efforts[reasoning] }),
    ...(options.abortSignal === undefined ? {} : { signal: options.abortSignal })
  }
}

const toInput = async (hermes: HermesView, options: LanguageModelV4CallOptions, { branches, settings }: ModelState) => {
  const { history, prompt } = AiSdkConversation.toConversation(options.prompt)
  const run = toSettings(options, settings)
  const sessionId = readSession(options)
  const placed: AiSdkSession.PlacedCall =
    sessionId === undefined
      ? { input: { history }, warning: undefined }
      : await placeCallIn(hermes, { sessionId, history, prompt, source: run.source ?? "ai-sdk" }, branches)
  const input: HermesInput = { source: "ai-sdk", ...run, prompt, ...placed.input }
  return { input, warning: placed.warning }
}

const noCalls: ReadonlySet<string> = new Set()

/** Starts the run of a call: it continues a suspended run if the prompt ends in answers to its approvals. */
const planRun = async (hermes: HermesView, options: LanguageModelV4CallOptions, state: ModelState) => {
  if (state.watched !== undefined) {
    const { abortSignal: signal } = options
    return { output: false, run: hermes.watch({ ...state.watched, signal }), warning: undefined, denied: noCalls }
  }
  const responses = AiSdkApprovals.readResponses(options.prompt)
  if (responses.length > 0) {
    const { source: _, ...settings } = toSettings(options, state.settings)
    const named = readSession(options)
    const sessions = named === undefined ? undefined : [named, ...(state.branches.get(named) ?? [])]
    const { denied, ...answered } = await AiSdkApprovals.findAnswers(hermes, responses, sessions)
    const run = hermes.resumeStream({ ...settings, ...answered })
    return { output: settings.output !== undefined, run, warning: undefined, denied }
  }
  const { input, warning } = await toInput(hermes, options, state)
  return { output: input.output !== undefined, run: hermes.stream(input), warning, denied: noCalls }
}

/** Converts the failure of a run for the AI SDK. An aborted call fails with the reason of its signal. */
const toFailure = (error: unknown, { abortSignal }: LanguageModelV4CallOptions): unknown =>
  abortSignal?.aborted === true && error instanceof HermesError && error.tag === "Aborted" ? abortSignal.reason : error

/** Starts a run that continues without its reader, also if the reader leaves before the first event. */
const startAtOnce = (run: AsyncIterableIterator<RunEvent>): AsyncIterable<RunEvent> => {
  const first = run.next()
  // The reader receives the failure, if there is one.
  first.catch(() => {})
  let pending: typeof first | undefined = first
  return {
    [Symbol.asyncIterator]: () => ({
      next: () => {
        const next = pending ?? run.next()
        pending = undefined
        return next
      },
      return: async () => (await run.return?.()) ?? { done: true, value: undefined }
    })
  }
}

async function* streamParts(
  hermes: HermesView,
  options: LanguageModelV4CallOptions,
  state: ModelState
): AsyncGenerator<LanguageModelV4StreamPart> {
  const { denied, output, run, warning } = await planRun(hermes, options, state)
  const events = state.settings.whenLeft === "continue" ? startAtOnce(run) : run
  const next = AiSdkEvents.make(output, denied)
  const warnings: Array<SharedV4Warning> = [
    ...listWarnings(options),
    ...(warning === undefined ? [] : [{ type: "other", message: warning } as const])
  ]
  yield { type: "stream-start", warnings }
  for await (const event of events) {
    if (options.includeRawChunks === true) yield { type: "raw", rawValue: event }
    yield* next(event)
  }
}

/** Streams the parts of a run. If the run fails, its error is the last part. */
async function* withError(
  parts: AsyncGenerator<LanguageModelV4StreamPart>,
  options: LanguageModelV4CallOptions
): AsyncGenerator<LanguageModelV4StreamPart> {
  try {
    yield* parts
  } catch (error) {
    yield { type: "error", error: toFailure(error, options) }
  }
}

/** Collects the stream parts into a complete answer. */
const collectAnswer = async (
  parts: AsyncIterable<LanguageModelV4StreamPart>
): Promise<LanguageModelV4GenerateResult> => {
  const content: Array<LanguageModelV4Content> = []
  let warnings: Array<SharedV4Warning> = []
  let response: LanguageModelV4GenerateResult["response"] = {}
  for await (const part of parts) {
    switch (part.type) {
      case "stream-start":
        warnings = part.warnings
        break
      case "response-metadata":
        response = {
          ...(part.id === undefined ? {} : { id: part.id }),
          ...(part.modelId === undefined ? {} : { modelId: part.modelId })
        }
        break
      case "text-start":
      case "reasoning-start":
        content.push({ type: part.type === "text-start" ? "text" : "reasoning", text: "" })
        break
      case "text-delta":
      case "reasoning-delta": {
        const last = content.at(-1)
        if (last?.type === "text" || last?.type === "reasoning") last.text += part.delta
        break
      }
      case "tool-call":
      case "tool-approval-request":
        content.push(part)
        break
      case "tool-result":
        if (part.preliminary !== true) content.push(part)
        break
      case "finish":
        return {
          content,
          finishReason: part.finishReason,
          usage: part.usage,
          warnings,
          response,
          ...(part.providerMetadata === undefined ? {} : { providerMetadata: part.providerMetadata })
        }
      default:
        break
    }
  }
  throw new HermesError("Unexpected", "the run ended without a result")
}

/**
 * Creates a language model from an agent, with specification v4 unless the options name an older version. An agent
 * whose functions read a `context` needs one in the options; make one model for each user, which costs nothing.
 */
export const languageModel = <Version extends keyof Specifications = "v4", Context = unknown>(
  hermes: HermesView<Context>,
  ...[settings]: unknown extends Context
    ? [settings?: LanguageModelOptions<Version>]
    : [settings: LanguageModelOptions<Version> & ContextOption<Context>]
): Specifications[Version] =>
  // The context that the agent requires is in the settings.
  makeVersion(hermes as HermesView, settings ?? {})

/** Names of a model that returns the active run of a session. */
export interface RunningModelOptions<Version extends keyof Specifications = keyof Specifications> extends Pick<
  LanguageModelOptions<Version>,
  "modelId" | "provider" | "specificationVersion"
> {
  /** Session that the call of the run named. */
  readonly sessionId: string
}

/**
 * Creates a model whose call returns the active run of a session from its beginning, in any process that has its
 * store, for the route with which `useChat({ resume: true })` continues an answer. The prompt of the call is not
 * used. Resolves with `undefined` if no run is active; the route then responds with 204. The run has to outlive its
 * first reader: its model needs the option `whenLeft: "continue"`, and its call no signal of the request.
 */
export const runningModel = async <Version extends keyof Specifications = "v4", Context = unknown>(
  hermes: HermesView<Context>,
  { sessionId, ...settings }: RunningModelOptions<Version>
): Promise<Specifications[Version] | undefined> => {
  // A reader needs no context.
  const runtime = hermes as HermesView
  const branches = findBranches(runtime)
  for (const id of [...(branches.get(sessionId) ?? []), sessionId].toReversed()) {
    const after = await hermes.activeRun(id)
    if (after !== undefined) return makeVersion(runtime, settings, { sessionId: id, after })
  }
  return undefined
}

const makeVersion = <Version extends keyof Specifications>(
  hermes: HermesView,
  settings: LanguageModelOptions<Version>,
  watched?: PlainStreams.WatchInput
): Specifications[Version] => {
  const model = makeModel(hermes, { settings, branches: findBranches(hermes), watched })
  const selectVersion = (): Specifications[keyof Specifications] => {
    switch (settings.specificationVersion) {
      case "v2":
        return toV2(model)
      case "v3":
        return toV3(model)
      default:
        return model
    }
  }
  // The `switch` statement returns the requested version.
  return selectVersion() as Specifications[Version]
}

const makeModel = (hermes: HermesView, state: ModelState): LanguageModelV4 => ({
  specificationVersion: "v4",
  provider: state.settings.provider ?? "hermes",
  modelId: state.settings.modelId ?? "agent",
  // Files are passed as bytes, because the URLs that the agent's model can load are not known here.
  supportedUrls: {},
  doGenerate: async (options) => {
    try {
      return await collectAnswer(streamParts(hermes, options, state))
    } catch (error) {
      throw toFailure(error, options)
    }
  },
  doStream: async (options) => {
    const parts = streamParts(hermes, options, state)
    // An invalid prompt fails the call, not its stream.
    const first = await parts.next()
    const rest = withError(parts, options)
    const streamAll = async function* (): AsyncGenerator<LanguageModelV4StreamPart> {
      if (first.done !== true) yield first.value
      yield* rest
    }
    return { stream: ReadableStream.from(streamAll()) }
  }
})
