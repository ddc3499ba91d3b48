/**
 * Sections of the settings: every key of a section with its kind and its default. `Settings` combines them.
 *
 * **Details**
 *
 * The sections are in this order: models (model, provider, address, behavior on failure), the agent (limits,
 * delegation, memory, compaction), tools (terminal, limits of results, MCP servers, jobs), and safety (approvals,
 * addresses, redaction, the content scanner).
 *
 * Source: `hermes-llm.md` §19 and §21, `hermes-product.md` §1.10, §2.3, §2.4, §3.1 and §6, `ARCHITECTURE.md` §7.
 */
import * as Schema from "effect/Schema"
import { Configurable } from "../domain/ApiMode.ts"
import * as F from "./Fields.ts"
import * as PermissionMode from "./PermissionMode.ts"

/** Reasoning effort of a model; `none` turns thinking off. */
const reasoningEffort = F.choice(["none", "minimal", "low", "medium", "high", "xhigh"])

/** `model`: the main model. */
export const model = F.optionalSection({
  default: F.optional(F.text),
  provider: F.withDefault(F.text, "auto"),
  baseUrl: F.optional(F.text),
  apiKey: F.optional(F.secret),
  /** Wire protocol. If absent, the protocol is derived from the provider, the model and the address. */
  apiMode: F.optional(Configurable),
  maxTokens: F.optional(F.positive),
  contextLength: F.optional(F.positive),
  ollamaNumCtx: F.optional(F.positive),
  /**
   * Prices of the main model in US dollars per million tokens, and per request. They override every other source.
   * Tokens without a price make the cost of a call unknown.
   */
  price: F.optional(
    F.section({
      input: F.optional(F.number({ least: 0 })),
      output: F.optional(F.number({ least: 0 })),
      /** Input that is read from the prompt cache. */
      cacheRead: F.optional(F.number({ least: 0 })),
      /** Input that is written to the prompt cache. */
      cacheWrite: F.optional(F.number({ least: 0 })),
      request: F.optional(F.number({ least: 0 }))
    })
  ),
  streaming: F.withDefault(F.flag, true)
})

/** `providers.<id>`: deadlines in seconds. The deadlines of a model override the deadlines of its provider. */
export const provider = F.section({
  requestTimeoutSeconds: F.optional(F.seconds),
  staleTimeoutSeconds: F.optional(F.seconds),
  /** Address that `hermes model login` uses to log in, instead of the address of the provider. */
  loginBaseUrl: F.optional(F.text),
  models: F.withDefault(
    F.record(F.section({ timeoutSeconds: F.optional(F.seconds), staleTimeoutSeconds: F.optional(F.seconds) })),
    {}
  )
})

/** `custom_providers[]`: named endpoints. */
export const customProvider = F.section({
  name: F.text,
  baseUrl: F.text,
  apiKey: F.optional(F.secret),
  /** Name of the environment variable that contains the API key. */
  keyEnv: F.optional(F.text),
  apiMode: F.optional(Configurable),
  models: F.withDefault(F.record(F.section({ contextLength: F.optional(F.positive) })), {})
})

/** An entry of `fallback_providers[]`, or the older `fallback_model`. `api_key_env` is another name for `key_env`. */
export const fallback = F.section({
  provider: F.text,
  model: F.text,
  baseUrl: F.optional(F.text),
  apiKey: F.optional(F.secret),
  keyEnv: F.optional(F.text),
  apiKeyEnv: F.optional(F.text),
  apiMode: F.optional(Configurable)
})

/** `<provider>.api_keys`: the keys in a provider's pool. */
export const providerKeys = F.section({ apiKeys: F.withDefault(F.secrets, []) })

/** `credential_pool_strategies.<provider>`: the order in which the keys of a provider's pool are used. */
export const poolStrategy = F.choice(["fill_first", "round_robin", "random", "least_used"])

/** `provider_routing`: preferences for the upstream providers of OpenRouter. */
export const providerRouting = F.optionalSection({
  only: F.withDefault(F.texts, []),
  ignore: F.withDefault(F.texts, []),
  order: F.withDefault(F.texts, []),
  sort: F.optional(F.choice(["price", "throughput", "latency"])),
  requireParameters: F.optional(F.flag),
  dataCollection: F.optional(F.choice(["allow", "deny"]))
})

/**
 * `auxiliary.<task>`: the route of a side task. The default of `timeout` depends on the task:
 * `DerivedSettings.readAuxiliaryTask`.
 */
export const auxiliary = F.section({
  provider: F.withDefault(F.text, "auto"),
  model: F.optional(F.text),
  baseUrl: F.optional(F.text),
  apiKey: F.optional(F.secret),
  apiMode: F.optional(Configurable),
  timeout: F.optional(F.seconds),
  contextLength: F.optional(F.markUnsupported(F.positive))
})

/**
 * `bedrock`: a guardrail requires an identifier and a version, and every route of a run must use Bedrock; see
 * `DerivedSettings.readGuardrail`.
 */
export const bedrock = F.optionalSection({
  guardrail: F.optionalSection({
    guardrailIdentifier: F.optional(F.text),
    /** Version of the guardrail: a number, or `DRAFT`. */
    guardrailVersion: F.optional(F.argument),
    streamProcessingMode: F.optional(F.choice(["sync", "async"])),
    trace: F.optional(F.choice(["enabled", "disabled", "enabled_full"]))
  })
})

/**
 * `network`: deadlines of model calls in seconds. The specification defines them as environment variables
 * (`HERMES_API_TIMEOUT`, `HERMES_STREAM_READ_TIMEOUT`, …); defaults depend on the route (`hermes-llm.md` §2.5).
 */
export const network = F.optionalSection({
  requestTimeoutSeconds: F.optional(F.seconds),
  streamReadTimeoutSeconds: F.optional(F.seconds),
  streamStaleTimeoutSeconds: F.optional(F.seconds),
  callStaleTimeoutSeconds: F.optional(F.seconds),
  streamRetries: F.withDefault(F.count, 2)
})

/** `agent`: settings of the agent loop. Times are in seconds. */
export const agent = F.optionalSection({
  /** Maximum number of model calls with tools in one run. */
  maxTurns: F.withDefault(F.positive, 90),
  /** Maximum number of attempts at one provider, including the first. */
  apiMaxRetries: F.withDefault(F.integer({ least: 1 }), 3),
  reasoningEffort: F.withDefault(reasoningEffort, "medium"),
  /** Budget of one run and its child agents, in seconds; no limit if absent. */
  runBudgetSeconds: F.optional(F.seconds),
  runBudgetTokens: F.optional(F.positive),
  /**
   * Budget of one run and its child agents, in US dollars; no limit if absent. Calls with an unknown price are not
   * counted.
   */
  runBudgetDollars: F.optional(F.number({ least: 0 })),
  runBudgetToolCalls: F.optional(F.positive),
  gatewayTimeout: F.withDefault(F.markUnsupported(F.seconds), 1800),
  /** `auto` decides by the name of the model. A list contains parts of model names to which the enforcement applies. */
  toolUseEnforcement: F.withDefault(
    Schema.Union([Schema.Literal("auto"), Schema.Boolean, F.texts]).annotate({
      expected: "auto, true, false or a list of model names"
    }),
    "auto"
  ),
  /**
   * Description of the environment in which the agent works; it becomes part of the system prompt of each new session.
   */
  environmentHint: F.optional(F.text),
  /** Names of tools whose successful call ends the run; its result is the answer. */
  stopTools: F.withDefault(F.texts, [])
})

/**
 * `delegation`: limits of a child agent, and its route, which is merged with the parent's route by the rules of
 * `RouteStatement`.
 *
 * **Details**
 *
 * The specification contains values from several periods. The values of the middle period apply, except for the spawn
 * depth of 2 and the limit of one `delegate_task` call per step (`ARCHITECTURE.md` §7). By default a child has no
 * deadline; a configured deadline is at least 30 seconds.
 */
export const delegation = F.optionalSection({
  maxSpawnDepth: F.withDefault(F.integer({ least: 1 }), 2),
  maxConcurrentChildren: F.withDefault(F.integer({ least: 1 }), 3),
  /** Maximum number of `delegate_task` calls that run in one step; each call can contain several tasks. */
  maxCallsPerStep: F.withDefault(F.integer({ least: 1 }), 1),
  maxIterations: F.withDefault(F.positive, 50),
  childTimeoutSeconds: F.optional(F.number({ least: 30 })),
  model: F.optional(F.text),
  provider: F.optional(F.text),
  baseUrl: F.optional(F.text),
  apiKey: F.optional(F.secret),
  /**
   * Wire protocol. If absent, a child at the parent's address uses the parent's protocol. At any other address the
   * protocol is derived from the provider, the model and the address.
   */
  apiMode: F.optional(Configurable),
  reasoningEffort: F.optional(reasoningEffort),
  inheritMcpToolsets: F.withDefault(F.flag, true),
  /**
   * Approves the tool calls of sub-agents that need approval instead of denying them. Each approval covers only one
   * call.
   */
  subagentAutoApprove: F.withDefault(F.flag, false)
})

const limitSection = (exactFailure: number, sameToolFailure: number, idempotentNoProgress: number) =>
  F.optionalSection({
    exactFailure: F.withDefault(F.positive, exactFailure),
    sameToolFailure: F.withDefault(F.positive, sameToolFailure),
    idempotentNoProgress: F.withDefault(F.positive, idempotentNoProgress)
  })

/**
 * `tool_loop_guardrails`: the number of repeated calls in one run that cause a warning, and the number that end the
 * run.
 */
export const toolLoopGuardrails = F.optionalSection({
  warningsEnabled: F.withDefault(F.flag, true),
  hardStopEnabled: F.withDefault(F.flag, false),
  warnAfter: limitSection(2, 3, 2),
  hardStopAfter: limitSection(5, 8, 5)
})

/** `compression`: the condition under which the conversation is compacted, and the parts that are retained. */
export const compression = F.optionalSection({
  enabled: F.withDefault(F.wordyFlag, true),
  /** Share of the context window that triggers compaction. */
  threshold: F.withDefault(F.ratio, 0.5),
  /** Size of the recent context that is retained, as a share of the size that triggers compaction. */
  targetRatio: F.withDefault(F.number({ least: 0.1, most: 0.8 }), 0.2),
  protectFirstN: F.withDefault(F.integer({ least: 0 }), 3),
  protectLastN: F.withDefault(F.count, 20)
})

/** `context`: the engine that compacts the conversation. */
export const context = F.optionalSection({ engine: F.withDefault(F.text, "compressor") })

/**
 * `prompt_caching`: the cache of the provider for the prefix of a conversation, which costs a tenth when it is read.
 */
export const promptCaching = F.optionalSection({
  /**
   * `auto` marks the prefix on routes that are known to support it, `on` on every route whose protocol can express it,
   * `off` on none.
   */
  mode: F.withDefault(F.choice(["auto", "on", "off"]), "auto"),
  /**
   * `1h` caches the prefix for an hour if the provider supports it (OpenAI: for a day); any other value caches it for
   * five minutes.
   */
  cacheTtl: F.withDefault(F.text, "5m"),
  /** Asks for an hour in a turn that begins after a pause of more than five minutes. */
  followPauses: F.withDefault(F.flag, true),
  /** Sends context of one turn (of hooks and of an external memory) again in later turns. */
  keepTurnContext: F.withDefault(F.flag, false)
})

/**
 * `memory`: limits are in characters. The nudge interval is the number of user turns before a background review; 0
 * disables the review.
 */
export const memory = F.optionalSection({
  memoryEnabled: F.withDefault(F.flag, true),
  userProfileEnabled: F.withDefault(F.flag, true),
  memoryCharLimit: F.withDefault(F.positive, 2200),
  userCharLimit: F.withDefault(F.positive, 1375),
  nudgeInterval: F.withDefault(F.count, 10),
  /** Name of an external memory that a plugin provides, used in addition to the built-in memory. */
  provider: F.optional(F.text)
})

/**
 * `skills`. The nudge interval is the number of model calls before a background review; 0 disables the review. The
 * specifications state two defaults (10 and 15); the default in the table of keys applies.
 */
export const skills = F.optionalSection({
  creationNudgeInterval: F.withDefault(F.count, 15),
  externalDirs: F.withDefault(F.paths, []),
  disabled: F.withDefault(F.texts, []),
  templateVars: F.withDefault(F.flag, true),
  /** Runs commands written between !` and ` in a skill when the model reads the skill. */
  inlineShell: F.withDefault(F.flag, false)
})

/** `terminal`: execution of commands. Times are in seconds. */
export const terminal = F.optionalSection({
  /**
   * `auto` uses the sandbox if this machine supports it. Otherwise commands run without a sandbox, after one warning.
   */
  backend: F.withDefault(
    F.markUnsupported(F.choice(["auto", "local", "sandbox", "docker", "singularity", "modal", "daytona", "ssh"]), {
      holds: ["auto", "local", "sandbox", "docker", "ssh"],
      stops: true,
      remedy: "commands would run on this machine; set it to local to allow that, or to sandbox to confine them"
    }),
    "auto"
  ),
  timeout: F.withDefault(F.seconds, 180),
  /** Idle time after which a container is removed or a connection is closed. */
  lifetimeSeconds: F.withDefault(F.seconds, 300),
  /** Working directory of the backend `ssh`; defaults to the home directory of the remote user. */
  cwd: F.optional(F.text),
  /**
   * Variables with credential-like names that commands may receive. Variables that hold keys of providers, messengers
   * and code hosts are never passed.
   */
  envPassthrough: F.withDefault(F.texts, []),
  /** Seconds that a single-query run waits for background processes that notify on completion. */
  oneshotCompletionWaitSeconds: F.withDefault(F.number({ least: 0 }), 600),
  /**
   * Limits of one command and the processes that it starts. A sandbox limits processes, memory and temporary files by
   * default.
   */
  limits: F.optionalSection({
    /** Total processor time of all processes of the command, in seconds. */
    cpuSeconds: F.optional(F.seconds),
    memoryMb: F.optional(F.positive),
    /** Maximum number of processes at a time. */
    processes: F.optional(F.positive),
    outputMb: F.optional(F.positive),
    /**
     * Maximum total size, in megabytes, of the files that all commands of a conversation store in `/tmp` and `/var/tmp`
     * of a sandbox.
     */
    temporaryMb: F.optional(F.positive)
  }),
  /** Program of the container engine. Defaults to Docker, or to Podman if Docker is not available. */
  dockerBinary: F.optional(F.text),
  dockerImage: F.withDefault(F.text, "nikolaik/python-nodejs:python3.11-nodejs20"),
  /** Mounts the working tree in the container; `false` makes commands work on a copy. */
  dockerMountCwdToWorkspace: F.withDefault(F.flag, true),
  /** Volumes of a container, each as `source:target` or `source:target:ro`. */
  dockerVolumes: F.withDefault(F.texts, []),
  /** Variables of this process that are passed to commands in a container. */
  dockerForwardEnv: F.withDefault(F.texts, []),
  /** Additional environment variables of commands in a container. */
  dockerEnv: F.withDefault(F.record(F.variable), {}),
  /** Additional arguments of `docker run`. */
  dockerExtraArgs: F.withDefault(F.texts, []),
  /** Runs commands as the current user of this machine; `false` runs them as the user of the image. */
  dockerRunAsHostUser: F.withDefault(F.flag, true),
  containerCpu: F.optional(F.number({ least: 0.01 })),
  /** Memory of a container, in megabytes. */
  containerMemory: F.withDefault(F.positive, 5120),
  /** Disk size of a container, in megabytes, if the container engine supports quotas. */
  containerDisk: F.optional(F.positive),
  /** Maximum number of processes in a container. */
  containerPids: F.withDefault(F.positive, 512),
  /** Preserves the home directory in a container for the next session in the same working tree. */
  containerPersistent: F.withDefault(F.flag, false),
  sshHost: F.optional(F.text),
  sshUser: F.optional(F.text),
  sshPort: F.optional(F.positive),
  /** Path of a private key file. */
  sshKey: F.optional(F.text),
  /** Rules of the sandbox. `policy`, `network` and `hide_env_files` apply to containers too. */
  sandbox: F.optionalSection({
    /** Prevents a run from starting if the sandbox cannot be set up. */
    required: F.withDefault(F.flag, false),
    /**
     * `full` disables the sandbox. Defaults to `workspace-write`, or to `read-only` in an untrusted folder that
     * contains agent files, skills or plugins (see `FolderTrust`).
     */
    policy: F.optional(F.choice(["workspace-write", "read-only", "full"])),
    /** Defaults to `hosts` if the policy is `workspace-write`, otherwise to `none`. */
    network: F.optional(F.choice(["none", "hosts", "all"])),
    /**
     * Hosts that web tools reach without approval, such as `example.com` or `*.example.com`. If `network` is `hosts`,
     * commands can reach them too.
     */
    hosts: F.withDefault(F.texts, []),
    /** Directories that may be written in addition to the working tree. */
    write: F.withDefault(F.paths, []),
    /** Files and directories to hide in addition to the known locations of credentials. */
    hide: F.withDefault(F.paths, []),
    hideEnvFiles: F.withDefault(F.flag, true)
  })
})

/** `tool_output`: limits on the output of tools. */
export const toolOutput = F.optionalSection({
  maxBytes: F.withDefault(F.positive, 50_000),
  maxLines: F.withDefault(F.positive, 2000),
  maxLineLength: F.withDefault(F.positive, 2000)
})

/** `code_execution`: limits of the tool `execute_code`. */
export const codeExecution = F.optionalSection({
  mode: F.withDefault(F.choice(["project", "strict"]), "project"),
  timeout: F.withDefault(F.seconds, 300),
  maxToolCalls: F.withDefault(F.positive, 50)
})

/** `cron`: scheduled jobs. Times are in seconds. */
export const cron = F.optionalSection({
  /** Maximum number of jobs that run at once; no limit if absent. */
  maxParallelJobs: F.optional(F.positive),
  /** Reports only once that a job cannot run and why, instead of at each scheduled time. */
  preflight: F.withDefault(F.flag, true),
  /** Adds the name of the job to its displayed result. */
  wrapResponse: F.withDefault(F.flag, true),
  /** Time zone of new jobs, such as `Europe/Berlin`; defaults to the time zone of the machine. */
  timezone: F.optional(F.text),
  /** Lets a job schedule new jobs. */
  jobsMaySchedule: F.withDefault(F.flag, false),
  scriptTimeoutSeconds: F.withDefault(F.seconds, 120),
  /** Maximum duration of a whole run, in seconds. */
  runTimeoutSeconds: F.withDefault(F.seconds, 3600)
})

/** `store`: the database of sessions, for all commands. */
export const store = F.optionalSection({
  /** Address of a Postgres database; without it, sessions are in `state.db` of the home directory. */
  url: F.optional(F.secret)
})

/** `cluster`: several runner processes that share one Postgres database. */
export const cluster = F.optionalSection({
  /** Address of the database: `postgres://user:password@host:port/database`. */
  databaseUrl: F.optional(F.secret),
  /** Maximum number of runs at a time in one runner. */
  concurrency: F.withDefault(F.positive, 8),
  /** Seconds that a draining runner waits for its runs; the remaining runs continue on other runners. */
  drainTimeoutSeconds: F.withDefault(F.seconds, 300),
  /** Budgets of all runs on all runners together, in tokens and in US dollars; no limit if absent. */
  budgetTokens: F.optional(F.positive),
  budgetDollars: F.optional(F.number({ least: 0 })),
  /** Number of days for which a run and its workflow data are stored after the run ends; sessions remain. */
  retentionDays: F.withDefault(F.positive, 30),
  /** Stores scheduled jobs in the database; the runners run each job once. */
  runsCron: F.withDefault(F.flag, false)
})

/**
 * `server`: clients of `hermes serve` that have their own key, by client name. Each client sets one of `key`, `key_env`
 * and `key_file`.
 */
export const server = F.optionalSection({
  keys: F.withDefault(
    F.record(
      F.section({
        key: F.optional(F.secret),
        /** Name of the environment variable that contains the key. */
        keyEnv: F.optional(F.text),
        /** File that contains only the key. */
        keyFile: F.optional(F.text),
        /** Tenant (`tenants.<name>`) for which the client's runs work. Its limits bound them. */
        tenant: F.optional(F.text),
        /** The least strict permission mode that the client's sessions may use; defaults to the mode of the server. */
        maxMode: F.optional(F.choice(PermissionMode.all)),
        /** Maximum number of open sessions of the client. */
        maxSessions: F.optional(F.positive),
        /** Maximum number of requests of the client that are processed at once. */
        maxRequests: F.optional(F.positive),
        /** Maximum number of open responses to the client, including event streams. */
        maxConnections: F.optional(F.positive)
      })
    ),
    {}
  )
})

const allowance = F.optional(F.section({ tokens: F.optional(F.positive), dollars: F.optional(F.number({ least: 0 })) }))

/** A route of a tenant, with at most one of `api_key`, `api_keys` and `key_env`. */
const tenantRoute = F.section({
  provider: F.text,
  model: F.text,
  baseUrl: F.optional(F.text),
  apiKey: F.optional(F.secret),
  /** Keys that are used in turn. */
  apiKeys: F.optional(F.secrets),
  /** Name of the environment variable that contains the API key. */
  keyEnv: F.optional(F.text),
  apiMode: F.optional(Configurable)
})

/** `tenants.<name>`: limits of a customer or a team whose runs `hermes serve` makes, and its models and keys. */
export const tenant = F.section({
  /**
   * The default route of the tenant's runs, followed by its fallbacks. A route without a key uses the key of the
   * settings for its provider. If absent, the routes of the settings apply.
   */
  routes: F.optional(Schema.Array(tenantRoute)),
  /** Routes of side tasks by task; `default` applies to the tasks without one. */
  auxiliary: F.optional(F.record(tenantRoute)),
  /**
   * Use of the keys of the settings by a tenant with its own keys: `never` (the default), or `fallback`, which tries
   * the routes of the settings after the tenant's routes.
   */
  sharedKeys: F.optional(F.choice(["never", "fallback"])),
  /** Allowances of one run, of a day and of a calendar month (both UTC), in tokens and in US dollars. */
  perRun: allowance,
  perDay: allowance,
  perMonth: allowance,
  /** Maximum number of model calls that begin in a minute; further calls wait. */
  callsPerMinute: F.optional(F.positive),
  /** Maximum number of runs at the same time; further runs are refused. */
  concurrentRuns: F.optional(F.positive),
  /**
   * Prices that are assumed for models without known prices, in US dollars per million tokens. If absent, a tenant with
   * a limit in dollars cannot use such models.
   */
  unknownPrices: F.optional(F.section({ input: F.number({ least: 0 }), output: F.number({ least: 0 }) })),
  /** Tools and toolsets that the runs may use; defaults to the tools of the server. */
  tools: F.optional(F.texts),
  /** Models that may be called, as `model` or `provider/model`; defaults to the models of the server. */
  models: F.optional(F.texts),
  /** Least strict permission mode of the runs; defaults to the mode of the key. */
  maxMode: F.optional(F.choice(PermissionMode.all)),
  /**
   * Directory to which the tools are limited: an existing absolute one, or `shared` for the directory of the server. If
   * absent, the tenant has a private directory in the home of hermes.
   */
  workspace: F.optional(F.text),
  /** True if other tenants that set it, too, may have the same `workspace`. */
  sharesWorkspace: F.optional(F.flag),
  /** Days after their last activity for which sessions are stored; defaults to the rule of `sessions`. */
  retentionDays: F.optional(F.positive),
  /** `bound` reserves an upper bound of each prompt, `estimate` an estimate that a prompt may exceed. */
  reserve: F.optional(F.choice(["bound", "estimate"]))
})

const unattended = F.choice(["deny", "approve"])

/** `approvals`: times are in seconds. A question that is not answered in time counts as denied. */
export const approvals = F.optionalSection({
  mode: F.withDefault(F.choice(["manual", "smart", "off"]), "manual"),
  /** Permission mode: `plan`, `ask`, `edits`, `auto` or `yolo`. If absent, `mode` defines it. */
  defaultMode: F.optional(F.choice(PermissionMode.all)),
  timeout: F.withDefault(F.seconds, 60),
  /** Timeout of questions that are answered outside the terminal, such as in a messenger or on a web page. */
  gatewayTimeout: F.withDefault(F.seconds, 300),
  cronMode: F.withDefault(unattended, "deny"),
  singleQueryMode: F.withDefault(unattended, "deny"),
  /** Answer to the questions of a run that was not started at a terminal, such as a run for an MCP client. */
  unattendedMode: F.withDefault(unattended, "deny"),
  /**
   * Treatment of commands that are not known to be read-only, outside a sandbox. `allow` is for disposable machines.
   */
  unknownCommands: F.withDefault(F.choice(["ask", "allow"]), "ask"),
  /** Globs of commands that never run. No approval or mode overrides this list. */
  deny: F.withDefault(F.texts, []),
  /**
   * Not implemented, because no slash command destroys data. For example, a session remains in the store after the user
   * leaves it.
   */
  destructiveSlashConfirm: F.withDefault(F.markUnsupported(F.flag, { holds: [false] }), true)
})

/**
 * `questions`: treatment of questions that no user answers during a run: approvals, and questions of tools. Times are
 * in seconds.
 */
export const questions = F.optionalSection({
  /**
   * `suspend` ends the run with its questions, and an answer continues it later. `deny` continues without an answer. By
   * default, an approval without an answer is a denial, and a question of a tool suspends the run.
   */
  unanswered: F.optional(F.choice(["deny", "suspend"])),
  /** Time for which a user who is present is waited for. Approvals wait for `approvals.timeout` by default. */
  wait: F.optional(F.seconds),
  /** Time after which an open question can no longer be answered. By default, questions do not expire. */
  expiresAfter: F.optional(F.seconds)
})

const rules = F.withDefault(Schema.Array(F.command), [])

/**
 * `permissions`: rules per tool and pattern, such as `terminal(npm test:*)`. `deny` overrides `ask`, and `ask`
 * overrides `allow`.
 */
export const permissions = F.optionalSection({ allow: rules, ask: rules, deny: rules })

/**
 * `security`. Secrets are redacted by default. The specifications disagree on this default; the safer value applies.
 */
export const security = F.optionalSection({
  allowPrivateUrls: F.withDefault(F.wordyFlag, false),
  /**
   * `ask` requires approval before web tools and commands reach a host that is neither listed (`permissions.allow`,
   * `terminal.sandbox.hosts`) nor approved.
   */
  unknownHosts: F.withDefault(F.choice(["allow", "ask"]), "ask"),
  redactSecrets: F.withDefault(F.wordyFlag, true),
  /** Directories that file tools may write to; no restriction if empty. */
  writeSafeRoot: F.withDefault(F.paths, []),
  tirithEnabled: F.withDefault(F.flag, true),
  tirithPath: F.withDefault(F.text, "tirith"),
  tirithTimeout: F.withDefault(F.seconds, 5),
  tirithFailOpen: F.withDefault(F.flag, true)
})
