/**
 * Settings of the agent itself: how long it runs, what it delegates, remembers and compacts.
 *
 * Source: `hermes-llm.md` §21, `hermes-product.md` §3.1 and §6, `ARCHITECTURE.md` §7.
 */
import * as Schema from "effect/Schema"
import { Configurable } from "../domain/ApiMode.ts"
import * as F from "./Fields.ts"
import { reasoningEffort } from "./ModelSettings.ts"

/** `agent`. Times are seconds. */
export const agent = F.defaulted({
  /** Model calls with tools in one run. */
  maxTurns: F.withDefault(F.positive, 90),
  /** Tries of one provider in all. */
  apiMaxRetries: F.withDefault(F.integer({ least: 1 }), 3),
  reasoningEffort: F.withDefault(reasoningEffort, "medium"),
  /** Budgets of one run and the children that it delegates to; without a limit when absent. */
  runBudgetSeconds: F.optional(F.seconds),
  runBudgetTokens: F.optional(F.positive),
  /** US dollars, as far as prices are known. */
  runBudgetDollars: F.optional(F.number({ least: 0 })),
  runBudgetToolCalls: F.optional(F.positive),
  gatewayTimeout: F.withDefault(F.unsupported(F.seconds), 1800),
  /** `auto` decides by the model's name; a list holds parts of names. */
  toolUseEnforcement: F.withDefault(
    F.unsupported(
      Schema.Union([Schema.Literal("auto"), Schema.Boolean, F.texts]).annotate({
        expected: "auto, true, false or a list of model names"
      }),
      { holds: [false, []] }
    ),
    "auto"
  ),
  /** Description of the place where the agent works, for the model: part of the system prompt of each new session. */
  environmentHint: F.optional(F.text)
})

/**
 * `delegation`: what a child agent may do, and its route: laid over the parent's as one source over another (`RouteStatement`).
 *
 * **Details**
 *
 * The periods of the contract differ; the middle one holds, with the spawn depth of 2 and the one `delegate_task` per step
 * of `ARCHITECTURE.md` §7. A child has no deadline unless one is set, and then at least half a minute.
 */
export const delegation = F.defaulted({
  maxSpawnDepth: F.withDefault(F.integer({ least: 1 }), 2),
  maxConcurrentChildren: F.withDefault(F.integer({ least: 1 }), 3),
  /** Number of `delegate_task` calls of one step that are run; each can carry several tasks. */
  maxCallsPerStep: F.withDefault(F.integer({ least: 1 }), 1),
  maxIterations: F.withDefault(F.positive, 50),
  childTimeoutSeconds: F.optional(F.number({ least: 30 })),
  model: F.optional(F.text),
  provider: F.optional(F.text),
  baseUrl: F.optional(F.text),
  apiKey: F.optional(F.secret),
  /** Absent means the parent's at the parent's address, else found out from provider, model and address. */
  apiMode: F.optional(Configurable),
  reasoningEffort: F.optional(reasoningEffort),
  inheritMcpToolsets: F.withDefault(F.flag, true),
  /** Auto-approves tool calls of sub-agents once, instead of denying them. */
  subagentAutoApprove: F.withDefault(F.flag, false)
})

const limits = (exactFailure: number, sameToolFailure: number, idempotentNoProgress: number) =>
  F.defaulted({
    exactFailure: F.withDefault(F.positive, exactFailure),
    sameToolFailure: F.withDefault(F.positive, sameToolFailure),
    idempotentNoProgress: F.withDefault(F.positive, idempotentNoProgress)
  })

/** `tool_loop_guardrails`: how many repetitions of one run are warned about, and how many end it. */
export const toolLoopGuardrails = F.defaulted({
  warningsEnabled: F.withDefault(F.flag, true),
  hardStopEnabled: F.withDefault(F.flag, false),
  warnAfter: limits(2, 3, 2),
  hardStopAfter: limits(5, 8, 5)
})

/** `compression`: when the conversation is compacted, and what of it stays. */
export const compression = F.defaulted({
  enabled: F.withDefault(F.unsupported(F.wordyFlag, { holds: [false] }), true),
  /** Share of the context window that triggers it. */
  threshold: F.withDefault(F.unsupported(F.ratio), 0.5),
  /** Share of the trigger that is kept as recent context. */
  targetRatio: F.withDefault(F.unsupported(F.number({ least: 0.1, most: 0.8 })), 0.2),
  protectFirstN: F.withDefault(F.unsupported(F.integer({ least: 0 })), 3),
  protectLastN: F.withDefault(F.unsupported(F.count), 20)
})

/** `context`: the engine that compacts. */
export const context = F.defaulted({ engine: F.withDefault(F.unsupported(F.text), "compressor") })

/** `prompt_caching`. */
export const promptCaching = F.defaulted({ cacheTtl: F.withDefault(F.unsupported(F.choice(["5m", "1h"])), "5m") })

/** `memory`: limits are characters; a nudge interval of 0 is never. */
export const memory = F.defaulted({
  memoryEnabled: F.withDefault(F.unsupported(F.flag, { holds: [false] }), true),
  userProfileEnabled: F.withDefault(F.unsupported(F.flag, { holds: [false] }), true),
  memoryCharLimit: F.withDefault(F.unsupported(F.positive), 2200),
  userCharLimit: F.withDefault(F.unsupported(F.positive), 1375),
  nudgeInterval: F.withDefault(F.unsupported(F.count, { holds: [0] }), 10),
  /** One provider besides the built-in memory. */
  provider: F.optional(F.unsupported(F.text))
})

/** `skills`. The two specifications differ on the nudge interval (10, 15); the table of keys holds. */
export const skills = F.defaulted({
  creationNudgeInterval: F.withDefault(F.unsupported(F.count, { holds: [0] }), 15),
  externalDirs: F.withDefault(F.unsupported(F.paths, { holds: [[]] }), []),
  disabled: F.withDefault(F.unsupported(F.texts, { holds: [[]] }), []),
  templateVars: F.withDefault(F.unsupported(F.flag, { holds: [false] }), true),
  inlineShell: F.withDefault(F.unsupported(F.flag, { holds: [false] }), false)
})
