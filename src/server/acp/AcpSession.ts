/**
 * One session of an ACP client over a live session: its events become updates, its questions requests of the client, its settings
 * modes and options.
 *
 * **Details**
 *
 * A prompt ends when its turn has ended and all updates before were sent. While one is under way another is refused. The session keeps
 * its id over compactions; the agent goes on in the stored session that took the place of the compacted one.
 *
 * A question of the agent that the client cannot show is answered with nothing, so that no turn hangs.
 *
 * Source: Agent Client Protocol, sessions.
 */
import type {
  ClientCapabilities,
  PermissionOption,
  PromptResponse,
  RequestPermissionRequest,
  SessionConfigOption,
  SessionModeState,
  SessionUpdate,
  ToolCallContent
} from "@agentclientprotocol/sdk/unstable"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as PermissionMode from "../../config/PermissionMode.ts"
import type { AgentError } from "../../domain/AgentError.ts"
import * as FileChange from "../../domain/FileChange.ts"
import * as Json from "../../domain/Json.ts"
import type { ReasoningEffort } from "../../domain/Model.ts"
import * as Redaction from "../../domain/Redaction.ts"
import type { Route } from "../../domain/Route.ts"
import type { RunResult } from "../../domain/RunEvent.ts"
import { type HostEvent, type LiveSettings, type Message, type OpenQuestion, planModes } from "../../host/HostEvent.ts"
import type { LiveSession } from "../../host/LiveSession.ts"
import type { RunInput } from "../../agent/RunInput.ts"
import * as AcpPrompt from "./AcpPrompt.ts"
import * as AcpUpdates from "./AcpUpdates.ts"

/** A request that cannot be answered. `message` says why, and what to do. */
export class AcpFailure extends Schema.TaggedError<AcpFailure>("hermes-effect/server/AcpFailure")("AcpFailure", {
  reason: Schema.Literals(["invalid_params", "invalid_request", "session_not_found", "auth_required", "internal"]),
  message: Schema.String
}) {}

/** Makes an {@link AcpFailure}. */
export const failure = (reason: AcpFailure["reason"], message: string): AcpFailure => new AcpFailure({ reason, message: Redaction.redactText(message) })

/** A model that a session can go on with. */
export interface AcpModel {
  readonly id: string
  readonly name: string
  readonly description: string
  /** The router's own choice when absent. */
  readonly route: Route | undefined
}

/** A slash command of a session. */
export interface AcpCommand {
  readonly name: string
  readonly description: string
  /** Form of its argument; none when absent. */
  readonly hint?: string | undefined
  /** Does it: says something, or has the agent work on a prompt. Fails with a line for the user. */
  readonly run: (argument: string) => Effect.Effect<{ readonly say: string } | { readonly prompt: string }, string>
}

/** Parts of a session that its host makes. */
export interface OpenedSession {
  readonly live: LiveSession
  readonly cwd: string
  readonly models: Effect.Effect<ReadonlyArray<AcpModel>>
  readonly commands: ReadonlyArray<AcpCommand>
  /** Tokens that the model holds; undefined where nobody knows. */
  readonly window: Effect.Effect<number | undefined>
  /** Things that the user should know before the first prompt. */
  readonly notices: ReadonlyArray<string>
}

/** The client of a connection, for one session. */
export interface SessionClient {
  readonly capabilities: ClientCapabilities
  readonly update: (update: SessionUpdate) => Effect.Effect<void>
  /** Asks for a permission; interrupting it takes the request back. Undefined where the client did not choose. */
  readonly permission: (request: Omit<RequestPermissionRequest, "sessionId">) => Effect.Effect<string | undefined>
  /** Asks for text or choices; undefined where there is no answer. */
  readonly elicit: (message: string, schema: Readonly<Record<string, unknown>>) => Effect.Effect<Readonly<Record<string, unknown>> | undefined>
}

/** Modes and options, as a new or loaded session tells them. */
export interface SessionState {
  readonly modes: SessionModeState
  readonly configOptions: Array<SessionConfigOption>
}

/** A session that is open for a client. */
export interface AcpSession {
  readonly state: Effect.Effect<SessionState>
  readonly prompt: (blocks: Parameters<typeof AcpPrompt.read>[0]) => Effect.Effect<PromptResponse, AcpFailure>
  readonly cancel: Effect.Effect<void>
  readonly setMode: (mode: string) => Effect.Effect<void, AcpFailure>
  readonly setOption: (option: string, value: string) => Effect.Effect<Array<SessionConfigOption>, AcpFailure>
  /** Sends the stored conversation as updates. */
  readonly replay: Effect.Effect<void, AcpFailure>
  /** Tells the client which commands there are. */
  readonly announce: Effect.Effect<void>
}

const modeNames: Readonly<Record<PermissionMode.PermissionMode, readonly [name: string, description: string]>> = {
  plan: ["Plan", "Read only, then present a plan"],
  ask: ["Ask", "Edit the working tree, ask about commands"],
  edits: ["Edits", "As Ask, and edit files that something runs later"],
  auto: ["Auto", "A model rules on what is asked about"],
  yolo: ["Yolo", "Skip approvals; the deny lists still apply"]
}

const efforts: ReadonlyArray<ReasoningEffort> = ["none", "minimal", "low", "medium", "high", "xhigh"]

/** Value of an option that leaves the choice to the settings. */
const byDefault = "default"

const stopReasons: Partial<Record<RunResult["exit"], PromptResponse["stopReason"]>> = {
  interrupted_by_user: "cancelled",
  output_truncated: "max_tokens",
  max_iterations_reached: "max_turn_requests",
  budget_exhausted: "max_turn_requests",
  content_filtered: "refusal"
}

const labels = {
  once: ["Allow once", "allow_once"],
  session: ["Allow for this session", "allow_always"],
  always: ["Always allow", "allow_always"],
  deny: ["Deny", "reject_once"]
} as const

type Plan = Extract<OpenQuestion, { readonly _tag: "Plan" }>["question"]
type Approval = Extract<OpenQuestion, { readonly _tag: "Approval" }>["question"]

/** Answers of an approval; those for good name what they hold for. */
const offersOf = ({ choices, prefix, targets }: Approval): ReadonlyArray<PermissionOption> =>
  choices.flatMap((choice): ReadonlyArray<PermissionOption> => {
    const [name, kind] = labels[choice]
    if (choice !== "session" && choice !== "always") return [{ optionId: choice, name, kind }]
    const what = targets.map(({ text }) => text).join(", ")
    return [
      { optionId: choice, name: what === "" ? name : `${name}: ${what}`, kind },
      ...prefix === undefined ? [] : [{ optionId: `${choice}:prefix`, name: `${name}: commands that begin with ${prefix.text}`, kind }]
    ]
  }).map((option) => ({ ...option, name: Redaction.redactText(option.name) }))

/** Returns the reply of an option; a denial for one that was not offered. */
const replyOf = (question: Approval, option: string | undefined) => {
  const [choice, prefix] = option?.split(":") ?? []
  const found = question.choices.find((one) => one === choice)
  return found === undefined ? { choice: "deny" as const } : { choice: found, ...prefix === undefined ? {} : { prefix: true } }
}

const previewOf = ({ description, preview }: Approval): Array<ToolCallContent> => [
  { type: "content", content: { type: "text", text: description } },
  ...preview === undefined ? [] : AcpUpdates.differencesOf({ diff: preview, path: FileChange.nameOf({ diff: preview, path: "" }) }).map(({ content }) => content)
]

/** Form of a question of the agent: choices, and words of the user's own. */
const formOf = (choices: ReadonlyArray<string>, multiple: boolean) => ({
  type: "object",
  properties: {
    ...choices.length === 0 ? {} : {
      choice: multiple
        ? { type: "array", title: "Answers", items: { type: "string", enum: choices } }
        : { type: "string", title: "Answer", enum: choices }
    },
    words: { type: "string", title: choices.length === 0 ? "Answer" : "Another answer" }
  }
})

const answersOf = (content: Readonly<Record<string, unknown>> | undefined): ReadonlyArray<string> =>
  [content?.["choice"], content?.["words"]].flat().filter((one): one is string => typeof one === "string" && one.trim() !== "")

/** Opens a session for a client, as long as the scope lives. */
export const make = Effect.fnUntraced(function*(
  { commands, cwd, live, models, notices, window }: OpenedSession,
  client: SessionClient
): Effect.fn.Return<AcpSession, never, Path.Path | Scope.Scope> {
  const paths = yield* Path.Path
  const resolve = (path: string): string => paths.resolve(cwd, path)
  const scope = yield* Effect.scope
  const reader = yield* live.subscribe({ whenBehind: "wait" })
  /** Messages of prompts that the client does not wait for any more. */
  const abandoned = new Set<Message["id"]>()
  /** The prompt that the client waits for; its message is the next one of a client that is not abandoned. */
  let awaited: Deferred.Deferred<Exit.Exit<RunResult, AgentError>> | undefined
  const asking = new Map<string, Fiber.Fiber<unknown, unknown>>()
  let known: ReadonlyArray<AcpModel> | undefined
  let tokens: number | undefined
  let updates: AcpUpdates.TurnUpdates | undefined
  /** A plan that the client's prompt ended with, until it is decided on: the prompt's turn goes on with what is decided. */
  let presented: { readonly id: OpenQuestion["id"]; readonly exit: Exit.Exit<RunResult, AgentError> } | undefined
  let unsaid = notices
  let isBusy = false
  let isCancelled = false

  const modesOf = (mode: PermissionMode.PermissionMode): SessionModeState => ({
    currentModeId: mode,
    availableModes: PermissionMode.all.map((id) => ({ id, name: modeNames[id][0], description: modeNames[id][1] }))
  })

  const optionsOf = Effect.fnUntraced(function*({ effort, mode, route }: LiveSettings) {
    const { availableModes } = modesOf(mode)
    known ??= yield* models
    const current = known.find((one) => one.route?.model === route?.model && one.route?.provider === route?.provider) ?? known[0]
    const select = (id: string, name: string, category: string, currentValue: string, options: ReadonlyArray<{ readonly value: string; readonly name: string; readonly description?: string }>): SessionConfigOption =>
      ({ type: "select", id, name, category, currentValue, options: [...options] })
    return [
      select("mode", "Mode", "mode", mode, availableModes.map(({ description, id, name }) => ({ value: id, name, description: description ?? "" }))),
      ...current === undefined ? [] : [select("model", "Model", "model", current.id, known.map(({ description, id, name }) => ({ value: id, name, description })))],
      select("effort", "Reasoning effort", "thought_level", effort ?? byDefault, [byDefault, ...efforts].map((value) => ({ value, name: value })))
    ]
  })

  const state = Effect.gen(function*() {
    const settings = yield* live.state
    return { modes: modesOf(settings.mode), configOptions: yield* optionsOf(settings) }
  })

  const approve = Effect.fnUntraced(function*(id: string, question: Approval) {
    const option = yield* client.permission({
      toolCall: {
        toolCallId: question.tool_call_id ?? id,
        title: question.command,
        kind: AcpUpdates.kindOf(question.tool),
        status: "pending",
        content: previewOf(question)
      },
      options: [...offersOf(question)]
    })
    yield* live.answer(id, { _tag: "Approval", reply: replyOf(question, option) })
  })

  const clarify = Effect.fnUntraced(function*(id: string, { choices, multiple, question }: Extract<OpenQuestion, { readonly _tag: "Clarification" }>["question"]) {
    if (client.capabilities.elicitation?.form != null) {
      const content = yield* client.elicit(question, formOf(choices, multiple))
      return yield* live.answer(id, { _tag: "Clarification", answers: answersOf(content) })
    }
    // Clients without forms show choices as they show permissions.
    const chosen = choices.length === 0 || multiple ? undefined : yield* client.permission({
      toolCall: { toolCallId: id, title: question, kind: "think", status: "pending" },
      options: [...choices.map((name, index): PermissionOption => ({ optionId: `${index}`, name, kind: "allow_once" })), { optionId: "none", name: "No answer", kind: "reject_once" }]
    })
    const answer = choices.find((_, index) => `${index}` === chosen)
    yield* live.answer(id, { _tag: "Clarification", answers: answer === undefined ? [] : [answer] })
  })

  const decide = Effect.fnUntraced(function*(id: string, { modes, plan }: Plan) {
    const option = yield* client.permission({
      toolCall: { toolCallId: id, title: "Carry out this plan?", kind: "switch_mode", status: "pending", content: [{ type: "content", content: { type: "text", text: plan } }] },
      options: [
        ...modes.map((mode): PermissionOption => ({ optionId: mode, name: `Approve, go on in the mode ${modeNames[mode][0]}`, kind: "allow_once" })),
        { optionId: "plan", name: "Keep planning", kind: "reject_once" }
      ]
    })
    yield* live.answer(id, { _tag: "Plan", mode: planModes.find((mode) => mode === option) ?? "plan" })
  })

  const workOf = (asked: OpenQuestion) => {
    switch (asked._tag) {
      case "Approval":
        return approve(asked.id, asked.question)
      case "Clarification":
        return clarify(asked.id, asked.question)
      case "Plan":
        return decide(asked.id, asked.question)
    }
  }

  const ask = Effect.fnUntraced(function*(asked: OpenQuestion) {
    const work = workOf(asked)
    // It was answered elsewhere, or taken back with its turn.
    asking.set(asked.id, yield* Effect.forkIn(Effect.catch(work, () => Effect.void), scope))
  })

  const titled = Effect.gen(function*() {
    const session = yield* Effect.orElseSucceed(live.known, () => undefined)
    if (session?.title !== undefined) yield* client.update({ sessionUpdate: "session_info_update", title: session.title })
  })

  const take = Effect.fnUntraced(function*(event: HostEvent) {
    switch (event._tag) {
      case "TurnStarted": {
        const { isRewritten, message } = event.turn
        tokens ??= yield* window
        updates = AcpUpdates.ofTurn(!isRewritten, { resolve, window: () => tokens })
        if (message.origin !== "client") yield* client.update({ sessionUpdate: "user_message_chunk", content: { type: "text", text: Redaction.redactText(message.shown) } })
        return
      }
      case "RunEvents":
        for (const one of event.events) for (const update of updates?.of(one) ?? []) yield* client.update(update)
        return
      case "TurnEnded": {
        const { id, origin } = event.turn.message
        if (abandoned.delete(id) || origin !== "client" || awaited === undefined) return
        const plan = (yield* live.state).questions.find(({ _tag, turn }) => _tag === "Plan" && turn === event.turn.id)
        if (plan === undefined) yield* Deferred.succeed(awaited, event.exit)
        else presented = { id: plan.id, exit: event.exit }
        return
      }
      case "QuestionAsked":
        return yield* ask(event.question)
      case "QuestionClosed": {
        if (presented?.id === event.id) {
          const { exit } = presented
          presented = undefined
          const goesOn = event.answer?._tag === "Plan" && Boolean(event.answer.mode !== "plan" || event.answer.words?.trim())
          if (!goesOn && awaited !== undefined) yield* Deferred.succeed(awaited, exit)
        }
        const fiber = asking.get(event.id)
        asking.delete(event.id)
        // It runs this very moment where its own answer closed the question.
        if (fiber !== undefined && event.answer === undefined) yield* Effect.forkIn(Fiber.interrupt(fiber), scope)
        return
      }
      case "SessionChanged":
        return yield* titled
      case "SettingsChanged": {
        tokens = undefined
        yield* client.update({ sessionUpdate: "current_mode_update", currentModeId: event.settings.mode })
        return yield* client.update({ sessionUpdate: "config_option_update", configOptions: yield* optionsOf(event.settings) })
      }
      case "Notice":
        return yield* client.update({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text: Redaction.redactText(`${event.message}\n`) } })
      case "QueueChanged":
      case "Steered":
      case "UsageAfter":
        return
    }
  })
  yield* Effect.forkScoped(Effect.ignore(Effect.forever(Effect.flatMap(reader.take, take))))

  const ended = (exit: Exit.Exit<RunResult, AgentError>): Effect.Effect<PromptResponse, AcpFailure> => {
    if (Exit.isSuccess(exit)) {
      const { exit: how, usage } = exit.value
      return Effect.succeed({ stopReason: isCancelled ? "cancelled" : stopReasons[how] ?? "end_turn", usage: AcpUpdates.usageOf(usage) })
    }
    if (isCancelled || Exit.hasInterrupts(exit)) return Effect.succeed({ stopReason: "cancelled" })
    const error = Exit.findErrorOption(exit)
    return Effect.fail(failure("internal", error._tag === "Some" ? error.value.message : "The turn ended by a defect; see the log on stderr."))
  }

  /** Sends a message and waits for its turn. */
  const converse = Effect.fnUntraced(function*(prompt: RunInput["prompt"], shown: string): Effect.fn.Return<PromptResponse, AcpFailure> {
    if (isCancelled) return { stopReason: "cancelled" }
    const done = yield* Deferred.make<Exit.Exit<RunResult, AgentError>>()
    awaited = done
    const { message } = yield* live.send({ prompt, shown })
    return yield* Effect.flatMap(
      Effect.onInterrupt(Deferred.await(done), () =>
        Effect.flatMap(live.state, ({ turn }) => {
          abandoned.add(turn?.message.id ?? message.id)
          return live.stop
        })),
      ended
    )
  })

  const commanded = (shown: string) => {
    const [, name = "", argument = ""] = /^\/([\w:-]+)\s*([^]*)$/u.exec(shown) ?? []
    const command = commands.find((one) => one.name === name)
    return command === undefined ? undefined : command.run(argument.trim())
  }

  const prompt: AcpSession["prompt"] = Effect.fnUntraced(function*(blocks) {
    if (isBusy) return yield* failure("invalid_request", "A prompt of this session is under way. Cancel it, or wait for its end.")
    isBusy = true
    isCancelled = false
    return yield* Effect.gen(function*(): Effect.gen.Return<PromptResponse, AcpFailure> {
      for (const line of unsaid) yield* client.update({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text: `${line}\n` } })
      unsaid = []
      const message = yield* Effect.mapError(Effect.provideService(AcpPrompt.read(blocks), Path.Path, paths), (line) => failure("invalid_params", line))
      const command = commanded(message.shown)
      if (command === undefined) return yield* converse(message.prompt, message.shown)
      const done = yield* Effect.mapError(command, (line) => failure("invalid_params", line))
      if ("prompt" in done) return yield* converse(done.prompt, message.shown)
      yield* client.update(AcpUpdates.message(done.say))
      return { stopReason: "end_turn" }
    }).pipe(Effect.ensuring(Effect.sync(() => {
      isBusy = false
    })))
  })

  const setMode: AcpSession["setMode"] = Effect.fnUntraced(function*(wanted) {
    const mode = PermissionMode.all.find((one) => one === wanted)
    if (mode === undefined) return yield* failure("invalid_params", `Unknown mode "${wanted}". The modes are ${PermissionMode.all.join(", ")}.`)
    yield* Effect.mapError(live.setMode(mode), ({ message }) => failure("invalid_params", message))
  })

  const setOption: AcpSession["setOption"] = Effect.fnUntraced(function*(option, value) {
    if (option === "mode") yield* setMode(value)
    else if (option === "model") {
      const model = (known ??= yield* models).find(({ id }) => id === value)
      if (model === undefined) return yield* failure("invalid_params", `Unknown model "${value}".`)
      yield* live.setRoute(model.route)
    } else if (option === "effort") {
      const effort = efforts.find((one) => one === value)
      if (effort === undefined && value !== byDefault) return yield* failure("invalid_params", `Unknown effort "${value}". Use ${[byDefault, ...efforts].join(", ")}.`)
      yield* live.setEffort(effort)
    } else return yield* failure("invalid_params", `Unknown option "${option}". The options are mode, model and effort.`)
    return yield* Effect.flatMap(live.state, optionsOf)
  })

  return {
    state,
    prompt,
    cancel: Effect.suspend(() => {
      isCancelled = isBusy
      return Effect.asVoid(live.stop)
    }),
    setMode,
    setOption,
    replay: Effect.gen(function*() {
      const messages = yield* Effect.mapError(live.messages, ({ message }) => failure("internal", message))
      for (const update of AcpUpdates.replayed(messages, { resolve })) yield* client.update(update)
    }),
    announce: commands.length === 0 ? Effect.void : client.update({
      sessionUpdate: "available_commands_update",
      availableCommands: commands.map(({ description, hint, name }) => ({ name, description, ...hint === undefined ? {} : { input: { hint } } }))
    })
  }
})

/** Reads the content of a form. */
export const contentOf = (content: unknown): Readonly<Record<string, unknown>> | undefined => Json.isFields(content) ? content : undefined
