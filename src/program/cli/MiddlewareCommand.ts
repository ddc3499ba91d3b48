/**
 * `hermes middleware`: shows the order, sources and failure policy of the middleware of the current
 * configuration, and their health in recent runs.
 */
import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as BuiltinMiddleware from "../../agent/builtin/BuiltinMiddleware.ts"
import * as MiddlewareImports from "../../agent/builtin/MiddlewareImports.ts"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import * as StackOutline from "../../middleware/StackOutline.ts"
import * as RetryPolicy from "../../models/routing/RetryPolicy.ts"
import { Plugins } from "../../agent/plugin/Plugins.ts"
import * as AgentChoice from "./AgentChoice.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { Program } from "./Program.ts"
import { printLine } from "./ProgramOutput.ts"
import * as RecordedHealth from "./RecordedHealth.ts"
import * as SafeText from "./render/SafeText.ts"

/**
 * Collects the middleware in the order of an agent: plugins in load order, then the entries of the settings and of the
 * agent file.
 */
const collectStack = Effect.fnUntraced(function* (settings: Values, agentFile: AgentFile | undefined) {
  const program = yield* Program
  const { middleware } = yield* Effect.provide(
    Effect.flatMap(Plugins, ({ loaded }) => loaded),
    program.layer(settings, { withoutModel: true })
  )
  const configured = yield* MiddlewareImports.fromSettings(settings.middlewares)
  const ofAgent = agentFile === undefined ? [] : yield* MiddlewareImports.make(agentFile.middlewares, agentFile.file)
  return [
    ...middleware.map((entry): StackOutline.SourcedEntry => ({
      middleware: entry,
      source: `plugin ${entry.name.split(":")[0] ?? entry.name}`
    })),
    ...configured,
    ...ofAgent
  ]
})

/** Describes the attempts that the router makes for a model call, inside all middleware. */
const describeRetries = ({ agent: { apiMaxRetries } }: Values): Effect.Effect<string> =>
  Effect.map(
    RetryPolicy.describePolicy(RetryPolicy.make({ attempts: apiMaxRetries })),
    (text) => `A failed model call on each route (agent.api_max_retries): ${text}.`
  )

const flags = {
  agent: Flags.makeText("agent", "FILE", "Include the middleware of an agent file"),
  json: Flags.makeSwitch("json", "Print JSON"),
  picture: Flags.makeSwitch("picture", "Draw a diagram of a run and its middleware"),
  bundled: Flags.makeSwitch("bundled", "List the bundled middleware for middlewares in config.yaml")
}

/** The command `hermes middleware`. */
export const command = Command.make(
  "middleware",
  flags,
  Effect.fn("hermes middleware")(
    function* ({ agent, bundled, json, picture }) {
      if (bundled) return yield* printLine(BuiltinMiddleware.names.join("\n"))
      if (json && picture) return yield* makeUsageFailure("--json and --picture cannot be combined")
      const settings = yield* Settings
      const outline = StackOutline.make(
        yield* collectStack(settings, agent === undefined ? undefined : yield* AgentChoice.choose(agent, true))
      )
      const recorded = yield* RecordedHealth.readHealth
      const stack = outline.stack.map((entry) => {
        const health = RecordedHealth.sumHealth(recorded, ({ name }) => name === entry.name)
        return health === undefined ? entry : { ...entry, health }
      })
      yield* printLine(
        json
          ? SafeText.toJson({ ...outline, stack }, 2)
          : picture
            ? StackOutline.renderPicture(outline)
            : StackOutline.renderText(outline)
      )
      if (json || picture) return
      const lines = stack.flatMap((entry) =>
        "health" in entry ? [`  ${SafeText.toLine(entry.name)}: ${RecordedHealth.formatHealth(entry.health)}`] : []
      )
      if (lines.length > 0) yield* printLine(["", RecordedHealth.title, ...lines].join("\n"))
      yield* printLine(`\n${yield* describeRetries(settings)}`)
    },
    Effect.scoped,
    Effect.provide(FolderTrust.layer),
    CommandSettings.provide
  )
)
