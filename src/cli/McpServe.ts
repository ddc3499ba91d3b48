/**
 * What `hermes mcp serve` does: the agent as a tool `hermes_ask` of an MCP server on stdin and stdout, and with it those
 * read-only tools that were asked for.
 *
 * **Details**
 *
 * Each call of `hermes_ask` is a run with the approvals of a single query; `session_id` continues one. A tool that may write
 * is offered through the agent alone, which asks its approvals. stdout belongs to the protocol: whatever else is printed goes
 * to stderr. The server ends with its input.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stdio from "effect/Stdio"
import * as Agent from "../agent/Agent.ts"
import * as Config from "../config/Config.ts"
import { Settings, type Values } from "../config/Settings.ts"
import * as Ids from "../domain/Ids.ts"
import * as Json from "../domain/Json.ts"
import { isCompleted } from "../domain/RunEvent.ts"
import { Attendance, unattended } from "../tool/approval/Attendance.ts"
import * as McpHost from "../tool/mcp/McpHost.ts"
import { ToolContext } from "../tool/ToolContext.ts"
import { everything, type Selection, ToolRegistry } from "../tool/ToolRegistry.ts"
import type { BoundTool } from "../tool/Toolset.ts"
import * as ErrorLine from "./ErrorLine.ts"
import { usage } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import * as Machine from "./internal/machine.ts"
import { Output } from "./Output.ts"
import { Program } from "./Program.ts"
import * as Tooling from "./Tooling.ts"

const Asked = Schema.Struct({ prompt: Schema.NonEmptyString, session_id: Schema.optionalKey(Schema.String) })

const ask = (agent: Agent.Service, tools: Selection, settings: Values): McpHost.Offered => ({
  name: "hermes_ask",
  description: "Gives a task to the agent hermes, which works on it with its own tools and answers. Pass the session_id of an " +
    "answer to go on with that conversation.",
  parameters: {
    properties: { prompt: { type: "string", description: "The task" }, session_id: { type: "string" } },
    required: ["prompt"]
  },
  readOnly: false,
  run: (args) =>
    Schema.decodeUnknownEffect(Asked)(args).pipe(
      Effect.mapError(() => "hermes_ask takes a prompt and, to go on with a conversation, a session_id: both are texts"),
      Effect.flatMap(({ prompt, session_id: sessionId }) =>
        Effect.matchCauseEffect(agent.run({ prompt, sessionId, tools, source: "mcp" }), {
          onFailure: (cause) => Effect.fail(ErrorLine.ofCause(cause).line),
          onSuccess: (result) =>
            isCompleted(result)
              ? Effect.succeed(`${result.text}\n\n[session_id: ${result.sessionId}]`)
              : Effect.fail(`${result.text}\n\n[ended early: ${result.exit}; session_id: ${result.sessionId}]`)
        })),
      Effect.provideService(Attendance, unattended("mcp server", settings.approvals.unattendedMode))
    )
})

const offered = Effect.fnUntraced(function*(bound: BoundTool) {
  const session = yield* Ids.makeSessionId
  const { description, name, parameters } = bound.definition
  const tool: McpHost.Offered = {
    name,
    description,
    parameters: { ...parameters },
    readOnly: true,
    run: (args) =>
      bound.run(args, `mcp_${name}`).pipe(
        Effect.provideService(ToolContext, {
          sessionId: session,
          taskId: Ids.TaskId.make(session),
          turnId: Ids.TurnId.make(session),
          cwd: Machine.workingDirectory()
        }),
        Effect.mapError(({ message }) => message),
        Effect.flatMap(({ isFailure, output }) => isFailure ? Effect.fail(Json.toText(output)) : Effect.succeed(Json.toText(output)))
      )
  }
  return tool
})

const chosen = Effect.fnUntraced(function*(names: ReadonlyArray<string>) {
  const registry = yield* ToolRegistry
  const { get } = yield* registry.snapshot(everything)
  return yield* Effect.forEach(names, (name) => {
    const bound = get(name)
    if (bound === undefined) return usage(`--tools: there is no tool "${name}": \`hermes tools\` lists them`)
    return bound.facts.readonly === true
      ? offered(bound)
      : usage(`--tools: ${name} may write, so it is offered through the agent only: leave it out`)
  })
})

/** See the module. */
export const serve = Effect.fn("hermes mcp serve")(function*(flags: Flags.Globals, own: { readonly tools: string | undefined }) {
  const { protect, streams } = yield* Output
  const { stdin } = yield* Stdio.Stdio
  const program = yield* Program
  yield* protect
  const settings = yield* Settings
  yield* Effect.gen(function*() {
    const agent = yield* Agent.Agent
    const selection = yield* Tooling.select(flags, settings)
    const tools = yield* chosen(own.tools === undefined ? [] : Flags.names(own.tools))
    yield* McpHost.serve([ask(agent, selection, settings), ...tools], { input: stdin, write: (text) => Effect.sync(() => streams.answer.write(text)) })
  }).pipe(Effect.provide(program.layer(settings, {})))
}, Effect.scoped, (effect, flags) => Effect.provide(effect, Config.layerAll(Flags.configOptions(flags))))
