/**
 * Maps a program's settings to the options of the parts of its runtime. Used by `ProgramRuntime`.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Limits } from "../../agent/Budget.ts"
import type * as PromptCaching from "../../agent/PromptCaching.ts"
import type { AgentSettings, DelegationSettings } from "../../agent/RunInput.ts"
import * as InheritedLimits from "../../base/config/InheritedLimits.ts"
import { makeAddressGetter, type Environment, type Home } from "../../base/config/Environment.ts"
import { canonicalize } from "../../base/config/KnownProviders.ts"
import * as DerivedSettings from "../../base/config/DerivedSettings.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import { awsSecrets } from "../../base/domain/CredentialNames.ts"
import * as ChildProcesses from "../../base/platform/ChildProcesses.ts"
import { layer as leasesIn } from "../../base/platform/Leases.ts"
import { RedactSecrets } from "../../base/domain/Redaction.ts"
import type { Settings as HookSettings } from "../../hooks/Hooks.ts"
import * as Compaction from "../../tools/prompt/Compaction.ts"
import type * as MemoryStore from "../../tools/prompt/MemoryStore.ts"
import { readPrefill } from "../../tools/prompt/Prefill.ts"
import type * as SkillStore from "../../tools/prompt/SkillStore.ts"
import * as SystemPrompt from "../../tools/prompt/SystemPrompt.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import { detectRoute } from "../../models/routing/RouteDetection.ts"
import * as PathRoots from "../../tools/builtin/file/PathRoots.ts"
import { CodeSettings, FileLimits, InlineShell, TerminalSettings } from "../../tools/builtin/BuiltinSettings.ts"
import type { QuestionPolicy } from "../../tools/CallQuestions.ts"
import type { Settings as LoopGuardSettings } from "../../tools/calls/LoopGuard.ts"

/**
 * Selects the environment variables that commands receive. General `AWS_…` variables are included for command line
 * tools, unless a route of this program signs requests with them. In that case their secrets are keys of the program.
 * `terminal.env_passthrough` names credentials of other programs that commands need.
 */
export const selectCommandVariables = ({
  auxiliary,
  customProviders,
  delegation,
  fallbackProviders,
  model,
  tenants,
  terminal
}: Values): { readonly passThrough: ReadonlyArray<string>; readonly reserved: ReadonlyArray<string> } => {
  const ofTenants = DerivedSettings.listTenantRoutes({ tenants })
  const routes = [
    model,
    delegation,
    ...customProviders,
    ...fallbackProviders,
    ...Object.values(auxiliary),
    ...ofTenants
  ]
  const signs = routes.some((route) => {
    const provider = "provider" in route ? canonicalize(route.provider ?? "") : undefined
    return (
      detectRoute({ provider, apiMode: route.apiMode, baseUrl: route.baseUrl, model: "" }).apiMode ===
      "bedrock_converse"
    )
  })
  return {
    passThrough: [...terminal.envPassthrough, ...(terminal.backend === "docker" ? terminal.dockerForwardEnv : [])],
    reserved: [
      ...[...customProviders, ...fallbackProviders, ...ofTenants].flatMap(({ keyEnv }) => keyEnv ?? []),
      ...(signs ? awsSecrets : [])
    ]
  }
}

/** Creates the layer with the settings of the built-in tools and the limits on their results. */
export const makeToolsLayer = (settings: Values, inherited: InheritedLimits.Limits | undefined) => {
  const { fileReadMaxChars, security, terminal, toolOutput } = settings
  return Layer.mergeAll(
    Layer.succeed(TerminalSettings, {
      timeoutSeconds: terminal.timeout,
      outputChars: toolOutput.maxBytes,
      environment: selectCommandVariables(settings)
    }),
    Layer.succeed(FileLimits, {
      chars: fileReadMaxChars,
      lines: toolOutput.maxLines,
      lineChars: toolOutput.maxLineLength
    }),
    Layer.succeed(InlineShell, settings.skills.inlineShell),
    Layer.succeed(RedactSecrets, security.redactSecrets),
    Layer.succeed(InheritedLimits.Current, InheritedLimits.fromSettings(settings, inherited))
  )
}

/**
 * Creates the layer with the services and options of the tools that use the network, run scripts or store jobs. Each
 * service is loaded when its tool is used.
 */
export const makeToolPortsLayer = (settings: Values, environment: Environment["Service"], home: Home["Service"]) =>
  Layer.unwrap(
    Effect.map(
      Effect.promise(() =>
        Promise.all([
          import("../../tools/fence/Urls.ts"),
          import("../../tools/fence/EgressGate.ts"),
          import("../../tools/builtin/SearchProvider.ts"),
          import("../../tools/cron/CronJobs.ts"),
          import("../../tools/cron/CronContext.ts"),
          import("../../tools/cron/JobDraft.ts")
        ])
      ),
      ([urls, gate, search, cron, { CronDefaults }, { readCurrentModel: currentModel }]) =>
        Layer.mergeAll(
          cron.layer(home.cron).pipe(Layer.provide([leasesIn(home.database), ChildProcesses.layer])),
          Layer.sync(CronDefaults, () => ({
            timezone: settings.cron.timezone,
            model: currentModel(settings, environment)
          })),
          Layer.succeed(urls.UrlPolicy, gate.policyFromSettings(settings)),
          Layer.succeed(
            search.WebSearch,
            search.fromEnvironment((name) =>
              // `TAVILY_API_KEY` and `TAVILY_BASE_URL` are used together.
              makeAddressGetter(environment, [`${name.slice(0, name.indexOf("_"))}_BASE_URL`])(name)
            )
          ),
          Layer.succeed(CodeSettings, {
            mode: settings.codeExecution.mode,
            timeoutSeconds: settings.codeExecution.timeout,
            maxToolCalls: settings.codeExecution.maxToolCalls,
            environment: selectCommandVariables(settings)
          })
        )
    )
  )

/** Loads the example messages that are added to every call. */
const loadPrefill = ({ prefillMessagesFile }: Values, environment: Environment["Service"], home: Home["Service"]) =>
  readPrefill(prefillMessagesFile, {
    agentHome: home.root,
    userHome: environment.get("HOME") ?? environment.get("USERPROFILE")
  })

/** Returns the limits of hook payloads and listeners. */
export const toHookSettings = ({ plugins }: Values): HookSettings => ({
  payloadMaxChars: plugins.payloadMaxChars,
  answerDeadline: plugins.hookCallbackTimeout === 0 ? Duration.infinity : Duration.seconds(plugins.hookCallbackTimeout)
})

/** Returns the limits of one run other than its model calls. */
const toLimits = ({ agent }: Values): Limits => ({
  tokens: agent.runBudgetTokens,
  dollars: agent.runBudgetDollars,
  seconds: agent.runBudgetSeconds,
  toolCalls: agent.runBudgetToolCalls
})

/** Returns the thresholds at which a run that repeats itself is warned or halted. */
const toLoopGuardSettings = ({ toolLoopGuardrails }: Values): LoopGuardSettings => {
  const toThresholds = ({
    exactFailure,
    idempotentNoProgress,
    sameToolFailure
  }: Values["toolLoopGuardrails"]["warnAfter"]) => ({ exactFailure, sameToolFailure, noProgress: idempotentNoProgress })
  return {
    warnings: toolLoopGuardrails.warningsEnabled,
    hardStop: toolLoopGuardrails.hardStopEnabled,
    warnAfter: toThresholds(toolLoopGuardrails.warnAfter),
    hardStopAfter: toThresholds(toolLoopGuardrails.hardStopAfter)
  }
}

/**
 * Returns the settings of sub-agents with their route. If a substitute answers for the models, no route is resolved.
 */
const toDelegationSettings = (
  settings: Values,
  { environment, logins }: Omit<ConfiguredRoutes.RouteSources, "settings">,
  isReplaced: boolean
): Effect.Effect<DelegationSettings, ConfigError> => {
  const {
    childTimeoutSeconds,
    maxCallsPerStep,
    maxConcurrentChildren,
    maxIterations,
    maxSpawnDepth,
    subagentAutoApprove
  } = settings.delegation
  const limits: DelegationSettings = {
    inheritMcpToolsets: settings.delegation.inheritMcpToolsets,
    reasoningEffort: settings.delegation.reasoningEffort,
    autoApprove: subagentAutoApprove,
    maxCallsPerStep,
    maxConcurrentChildren,
    maxIterations,
    maxSpawnDepth,
    childTimeoutMillis: childTimeoutSeconds === undefined ? undefined : childTimeoutSeconds * 1000
  }
  // The router knows the plugins, and determines whether one of them provides these providers.
  const brought = ConfiguredRoutes.findUnknownProviders(settings)
  return isReplaced
    ? Effect.succeed(limits)
    : Effect.map(
        Effect.fromResult(ConfiguredRoutes.resolveDelegated({ settings, environment, logins, brought })),
        (entry) => ({ ...limits, route: entry?.route })
      )
}

/** The part of a program's configuration that is not in its settings. */
interface Host {
  readonly environment: Environment["Service"]
  readonly home: Home["Service"]
}

const toCacheLifetime = ({ cacheTtl, followPauses, mode }: Values["promptCaching"]): PromptCaching.Lifetime => {
  if (mode === "off") return "off"
  if (cacheTtl === "1h") return "1h"
  return followPauses ? "auto" : "5m"
}

/** Returns the treatment of questions that no user answers during a run. */
const toQuestionPolicy = ({ questions: { expiresAfter, unanswered, wait } }: Values): QuestionPolicy => ({
  unanswered,
  wait: wait === undefined ? undefined : Duration.seconds(wait),
  expiresAfter: expiresAfter === undefined ? undefined : Duration.seconds(expiresAfter)
})

/** Returns the settings of the program's agent. */
export const toAgentSettings = Effect.fnUntraced(function* (
  settings: Values,
  { environment, home, logins }: Host & Pick<ConfiguredRoutes.RouteSources, "logins">,
  isReplaced: boolean
) {
  return {
    platform: "cli",
    promptCache: toCacheLifetime(settings.promptCaching),
    ...(settings.promptCaching.mode === "on" ? { promptCacheRoutes: "always" as const } : {}),
    keepTurnContext: settings.promptCaching.keepTurnContext,
    toolUseEnforcement: settings.agent.toolUseEnforcement,
    prefill: yield* loadPrefill(settings, environment, home),
    maxIterations: settings.agent.maxTurns,
    stopTools: settings.agent.stopTools,
    budget: toLimits(settings),
    maxOutputTokens: settings.model.maxTokens,
    reasoningEffort: settings.agent.reasoningEffort,
    loopGuard: toLoopGuardSettings(settings),
    questions: toQuestionPolicy(settings),
    // A scenario or a recording does not contain answers to reviews.
    reviews: isReplaced
      ? undefined
      : { memoryTurns: settings.memory.nudgeInterval, skillSteps: settings.skills.creationNudgeInterval },
    delegation: yield* toDelegationSettings(settings, { environment, logins }, isReplaced)
  } satisfies AgentSettings
})

/**
 * Returns the built-in engine with this name. Returns the default for any other name, including the name of a plugin's
 * engine.
 */
const chooseEngine = (name: string): Compaction.Settings["engine"] =>
  Compaction.engines.find((engine) => engine === name) ?? "compressor"

/** Creates the layer with the engine and the limits of compaction. */
export const makeCompactionLayer = ({ compression, context }: Values) =>
  Layer.succeed(
    Compaction.CompactionSettings,
    compression.enabled
      ? {
          engine: chooseEngine(context.engine),
          threshold: compression.threshold,
          targetRatio: compression.targetRatio,
          protectFirst: compression.protectFirstN,
          protectLast: compression.protectLastN
        }
      : "off"
  )

/**
 * Creates the layer with the sources of system prompts: a description of the machine, and the user's files. With
 * `--ignore-rules` the user's files are omitted.
 */
export const makePromptSourcesLayer = (
  settings: Values,
  {
    commands,
    directory,
    environment,
    home,
    memory,
    skills,
    withoutRules
  }: Host & {
    /** Description of the environment in which commands run. */
    readonly commands: string | undefined
    /** Working directory on the remote machine; `undefined` if commands run on this machine. */
    readonly directory: string | undefined
    readonly memory: MemoryStore.Service
    readonly skills: SkillStore.Service
    readonly withoutRules: boolean
  }
) =>
  SystemPrompt.layerSources({
    skills: skills.block,
    ...(withoutRules ? {} : { memory: memory.blocks, home: home.root, project: true }),
    help: SystemPrompt.help,
    variable: environment.get,
    remoteDirectory: directory,
    environmentHints: [
      ...(commands === undefined ? [] : [commands]),
      ...(settings.agent.environmentHint === undefined ? [] : [settings.agent.environmentHint])
    ]
  })

/**
 * Creates the layer with the path settings of file tools: the roots below which they may write, and the directories of
 * the user and the agent.
 */
export const makePlacesLayer = (
  { security }: Values,
  { environment, home, inherited }: Host & { readonly inherited: InheritedLimits.Limits | undefined }
) =>
  PathRoots.layer({
    home: environment.get("HOME") ?? environment.get("USERPROFILE"),
    agentHome: home.root,
    safeRoots: security.writeSafeRoot,
    inherited: inherited?.roots
  })
