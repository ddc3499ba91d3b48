/** Collects the services of an agent from its context, and the services of its sub-agents. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { MemoryProvider } from "../base/domain/MemoryProvider.ts"
import * as Hooks from "../hooks/Hooks.ts"
import * as Middleware from "../middleware/Middleware.ts"
import * as Stack from "../middleware/Stack.ts"
import { CompactionPort } from "../models/routing/CompactionPort.ts"
import { ModelRouter } from "../models/routing/ModelRouter.ts"
import { RunRecord } from "../store/RunRecord.ts"
import { SessionStore } from "../store/SessionStore.ts"
import * as Approvals from "../tools/Approvals.ts"
import { FileState } from "../tools/builtin/file/FileState.ts"
import { FolderBranch } from "../base/domain/FolderBranch.ts"
import { PromptSources } from "../tools/prompt/SystemPrompt.ts"
import { ToolRegistry } from "../tools/ToolRegistry.ts"
import { UsageAccounts } from "./Budget.ts"
import { Children, make as makeChildren } from "./Children.ts"
import type { AgentSettings } from "./RunInput.ts"
import type { Lineage } from "./RunState.ts"
import type { AgentServices } from "./Services.ts"
import * as StopTools from "./StopTools.ts"

/**
 * Collects the services of an agent. `outermost` wraps `middleware`. Fails if two entries of the stack use one key for
 * different run state.
 */
export const collectServices = Effect.fnUntraced(function* (
  settings: AgentSettings,
  outermost: ReadonlyArray<Middleware.Contained>,
  middleware: ReadonlyArray<Middleware.Any>
) {
  const hooks = Option.getOrUndefined(yield* Effect.serviceOption(Hooks.Hooks)) ?? (yield* Hooks.make())
  const registry = yield* ToolRegistry
  // All additions are known when the agent is built.
  yield* hooks.settle
  yield* registry.settle
  const subAgents = settings.delegation?.agents ?? []
  yield* StopTools.warnUnknown(
    [settings, ...subAgents.map((one) => one.settings)].flatMap((one) => one?.stopTools ?? []),
    registry
  )
  const stacked = [...outermost, ...(yield* Middleware.arrangeEntries(middleware ?? []))]
  const services: AgentServices = {
    router: yield* ModelRouter,
    registry,
    store: yield* SessionStore,
    record: Option.getOrUndefined(yield* Effect.serviceOption(RunRecord)),
    interceptors: { stack: yield* Stack.makeChecked(stacked), hooks },
    // Without an approver, calls that need approval do not run.
    approvals: Option.getOrElse(yield* Effect.serviceOption(Approvals.Approvals), () =>
      Approvals.makeUnattended(hooks)
    ),
    compaction: yield* CompactionPort,
    children: Option.getOrElse(yield* Effect.serviceOption(Children), () => makeChildren()),
    accounts: Option.getOrUndefined(yield* Effect.serviceOption(UsageAccounts)),
    files: Option.getOrUndefined(yield* Effect.serviceOption(FileState)),
    memory: yield* MemoryProvider,
    promptSources: yield* PromptSources,
    folderBranch: yield* FolderBranch,
    settings
  }
  /** Services for the runs of each sub-agent: its own settings, and its middleware inside the shared middleware. */
  const ofSubAgents = new Map<string, AgentServices>()
  for (const one of subAgents) {
    ofSubAgents.set(one.name, {
      ...services,
      settings: {
        ...settings,
        identity: undefined,
        instructions: undefined,
        temperature: undefined,
        stopTools: undefined,
        output: undefined,
        ...one.settings
      },
      interceptors: { stack: yield* Stack.makeChecked([...stacked, ...(one.middleware ?? [])]), hooks }
    })
  }
  const selectServices = (lineage: Lineage | undefined): AgentServices =>
    (lineage?.agent === undefined ? undefined : ofSubAgents.get(lineage.agent)) ?? services

  return { services, selectServices }
})
