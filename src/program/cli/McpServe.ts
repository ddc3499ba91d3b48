/**
 * Action of `hermes mcp serve`: offers the agent as the tool `hermes_ask` of an MCP server on stdin and stdout,
 * together with the requested read-only tools.
 *
 * Each call to `hermes_ask` is a run with the approvals of a single query; `session_id` continues an existing session.
 * A call to another tool is processed like a tool call by the model: with hooks, middleware, approvals, fences and
 * redaction. Tools that may write are available only through the agent. stdout belongs to the protocol; all other
 * output goes to stderr. The server ends when its input ends.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stdio from "effect/Stdio"
import * as Agent from "../../agent/Agent.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import * as Ids from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import { isCompleted } from "../../base/domain/RunEvent.ts"
import { SessionStore, type Service as Store } from "../../store/SessionStore.ts"
import * as ServerKeys from "../../serve/server/ServerKeys.ts"
import * as SessionAudience from "../../store/SessionAudience.ts"
import { InteractiveMode, makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import * as McpHost from "../../tools/mcp/McpHost.ts"
import { everything, type Selection, ToolRegistry } from "../../tools/ToolRegistry.ts"
import type { BoundTool } from "../../tools/Toolset.ts"
import * as CommandSettings from "./CommandSettings.ts"
import * as ErrorLine from "./ErrorLine.ts"
import { makeUnknownNameFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { Output } from "./ProgramOutput.ts"
import { Program } from "./Program.ts"
import { selectTools } from "./RunOptions.ts"

const AskArguments = Schema.Struct({ prompt: Schema.NonEmptyString, session_id: Schema.optionalKey(Schema.String) })

/**
 * Returns the mode of an unattended server: calls that need an approval are denied, unless the settings specify
 * otherwise.
 */
const makeUnattendedMode = (settings: Values) => makeUnattended("mcp server", settings.approvals.unattendedMode)

/** Returns the id of an existing session that belongs to the client, or `undefined` if no id was given. */
const findOwnSession = Effect.fnUntraced(function* (
  store: Store,
  client: string | undefined,
  sessionId: string | undefined
) {
  if (sessionId === undefined) return undefined
  const session = yield* Effect.mapError(store.get(Ids.SessionId.make(sessionId)), ({ message }) => message)
  if (Option.isSome(session) && SessionAudience.isSeenBy(client, session.value.source)) return sessionId
  return yield* Effect.fail(`Unknown session_id ${JSON.stringify(sessionId)}. Omit it to start a new conversation.`)
})

const makeAskTool = (
  agent: Agent.Service,
  store: Store,
  tools: Selection,
  settings: Values,
  client?: string
): McpHost.OfferedTool => ({
  name: "hermes_ask",
  description:
    "Gives a task to the agent hermes, which works on it with its own tools and answers. Pass the session_id of an " +
    "answer to go on with that conversation.",
  parameters: {
    properties: { prompt: { type: "string", description: "The task" }, session_id: { type: "string" } },
    required: ["prompt"]
  },
  readOnly: false,
  run: (args) =>
    Schema.decodeUnknownEffect(AskArguments)(args).pipe(
      Effect.mapError(
        () => "hermes_ask takes a prompt and, to continue a conversation, a session_id: both must be strings"
      ),
      Effect.flatMap(({ prompt, session_id: given }) =>
        Effect.map(findOwnSession(store, client, given), (sessionId) => ({ prompt, sessionId }))
      ),
      Effect.flatMap(({ prompt, sessionId }) =>
        Effect.matchCauseEffect(
          agent.run({ prompt, sessionId, tools, source: SessionAudience.formatSource("mcp", client), platform: "mcp" }),
          {
            onFailure: (cause) => Effect.fail(ErrorLine.fromCause(cause).line),
            onSuccess: (result) =>
              isCompleted(result)
                ? Effect.succeed(`${result.text}\n\n[session_id: ${result.sessionId}]`)
                : Effect.fail(`${result.text}\n\n[ended early: ${result.exit}; session_id: ${result.sessionId}]`)
          }
        )
      ),
      Effect.provideService(InteractiveMode, makeUnattendedMode(settings))
    )
})

/**
 * Returns a function that creates the tool `hermes_ask` for a client. Its runs use the given tools and the services in
 * the context.
 */
export const makeClientAskTool = Effect.fnUntraced(function* (tools: Selection) {
  const [agent, store, settings] = [yield* Agent.Agent, yield* SessionStore, yield* Settings]
  return (client: string | undefined) =>
    makeAskTool(agent, store, client === undefined ? tools : ServerKeys.limitTools(tools), settings, client)
})

const offerTool = (
  agent: Agent.Service,
  settings: Values,
  { definition: { description, name, parameters } }: BoundTool
): McpHost.OfferedTool => ({
  name,
  description,
  parameters: { ...parameters },
  readOnly: true,
  run: (args) =>
    agent.callTool({ name, args }).pipe(
      Effect.provideService(InteractiveMode, makeUnattendedMode(settings)),
      Effect.flatMap(({ isFailure, output }) =>
        isFailure ? Effect.fail(Json.toText(output)) : Effect.succeed(Json.toText(output))
      )
    )
})

const offerChosenTools = Effect.fnUntraced(function* (
  agent: Agent.Service,
  settings: Values,
  names: ReadonlyArray<string>
) {
  const registry = yield* ToolRegistry
  const { get } = yield* registry.snapshot(everything)
  return yield* Effect.forEach(names, (name) => {
    const bound = get(name)
    if (bound === undefined) return makeUnknownNameFailure("tool", name, { list: "hermes tools" })
    return bound.facts.readonly === true
      ? Effect.succeed(offerTool(agent, settings, bound))
      : makeUsageFailure(`--tools: ${name} may write, so only the agent can use it: leave it out`)
  })
})

/** Serves the agent and the named read-only tools to an MCP client over standard streams. */
export const serve = Effect.fn("hermes mcp serve")(
  function* (own: { readonly tools: string | undefined }) {
    const { protect, streams } = yield* Output
    const { stdin } = yield* Stdio.Stdio
    const program = yield* Program
    yield* protect
    const settings = yield* Settings
    yield* Effect.gen(function* () {
      const agent = yield* Agent.Agent
      const selection = yield* selectTools(yield* hermes, settings)
      const store = yield* SessionStore
      const tools = yield* offerChosenTools(agent, settings, own.tools === undefined ? [] : Flags.splitNames(own.tools))
      yield* McpHost.serve([makeAskTool(agent, store, selection, settings), ...tools], {
        input: stdin,
        write: (text) => Effect.sync(() => streams.answer.write(text))
      })
    }).pipe(Effect.provide(program.layer(settings, {})))
  },
  Effect.scoped,
  CommandSettings.provide
)
