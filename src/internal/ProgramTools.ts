/**
 * The tools of a program beside those that it always has, and what its settings say to them. Used by `Runtime` alone.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { besideAddress, type Environment } from "../config/Environment.ts"
import type { Home } from "../config/Home.ts"
import type { Values } from "../config/Settings.ts"
import * as ChildProcesses from "../platform/ChildProcesses.ts"
import { layer as leasesIn } from "../platform/Leases.ts"
import { CodeSettings } from "../tool/builtin/BuiltinSettings.ts"
import type { ToolRegistry } from "../tool/ToolRegistry.ts"
import { commandVariables } from "./SettingsMapping.ts"

/** Their toolsets. */
export const toolsets = Effect.map(
  Effect.promise(() =>
    Promise.all([
      import("../tool/builtin/Web.ts"),
      import("../tool/builtin/Vision.ts"),
      import("../tool/builtin/SessionSearchTool.ts"),
      import("../tool/builtin/Clarify.ts"),
      import("../tool/builtin/ExecuteCode.ts"),
      import("../tool/builtin/CronJob.ts")
    ])
  ),
  ([web, vision, sessionSearch, clarify, code, cronJob]) =>
    [web.toolset, vision.toolset, sessionSearch.toolset, clarify.toolset, code.toolset, cronJob.toolset] as const
)

/** Layer of the options of the built-in tools. */
export const told = (settings: Values, environment: Environment["Service"], home: Home["Service"]) =>
  Layer.unwrap(Effect.map(
    Effect.promise(() =>
      Promise.all([
        import("../tool/fence/Urls.ts"),
        import("../tool/builtin/web/SearchProvider.ts"),
        import("../tool/cron/CronJobs.ts"),
        import("../tool/cron/CronContext.ts"),
        import("../tool/cron/JobSnapshot.ts")
      ])
    ),
    ([urls, search, cron, { CronDefaults }, Snapshot]) =>
      Layer.mergeAll(
        cron.layer(home.cron).pipe(Layer.provide([leasesIn(home.database), ChildProcesses.layer])),
        Layer.sync(CronDefaults, () => ({ timezone: settings.cron.timezone, model: Snapshot.take(settings, environment) })),
        Layer.succeed(urls.UrlPolicy, {
          ...urls.strict,
          allowPrivate: settings.security.allowPrivateUrls,
          unknownHosts: settings.security.unknownHosts
        }),
        Layer.succeed(search.WebSearch, search.fromEnvironment((name) =>
          // `TAVILY_API_KEY` and `TAVILY_BASE_URL` belong together.
          besideAddress(environment, [`${name.slice(0, name.indexOf("_"))}_BASE_URL`])(name))),
        Layer.succeed(CodeSettings, {
          mode: settings.codeExecution.mode,
          timeoutSeconds: settings.codeExecution.timeout,
          maxToolCalls: settings.codeExecution.maxToolCalls,
          environment: commandVariables(settings)
        })
      )
  ))

/** Connects the MCP servers; nothing is loaded where there are none. */
export const servers = ({ mcpServers }: Values): Layer.Layer<never, never, Home | ToolRegistry> =>
  Object.keys(mcpServers).length === 0
    ? Layer.empty
    : Layer.unwrap(Effect.map(
      Effect.promise(() =>
        Promise.all([import("../tool/mcp/McpServers.ts"), import("../tool/mcp/SdkClient.ts"), import("../tool/mcp/McpLogins.ts")])),
      ([{ McpServers }, client, logins]) =>
        McpServers.layer(mcpServers).pipe(
          Layer.provide(client.layer.pipe(Layer.provide(logins.layer))),
          Layer.provide(ChildProcesses.layer)
        )
    ))
