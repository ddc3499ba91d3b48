/**
 * Sections of the settings: every key of a section with its kind and its default. `Settings` puts them together.
 *
 * **Details**
 *
 * First models: model, provider, address, and the behavior on failure. Then the agent: its limits, delegation, memory
 * and compaction. Then tools: the terminal, limits of results, MCP servers, jobs. Then safety: approvals, addresses,
 * redaction, the content scanner.
 *
 * Source: `hermes-llm.md` §19 and §21, `hermes-product.md` §1.10, §2.3, §2.4, §3.1 and §6, `ARCHITECTURE.md` §7.
 */
import * as Schema from "effect/Schema"
import { Configurable } from "../domain/ApiMode.ts"
import * as F from "./Fields.ts"
import * as PermissionMode from "./PermissionMode.ts"

/** Effort of a model's thinking; `none` turns it off. */
const reasoningEffort = F.choice(["none", "minimal", "low", "medium", "high", "xhigh"])

/** `model`: the main model. */
export const model = F.optionalSection({
  default: F.optional(F.text),
  provider: F.withDefault(F.text, "auto"),
  baseUrl: F.optional(F.text),
  apiKey: F.optional(F.secret),
  /** Absent means found out from provider, model and address. */
  apiMode: F.optional(Configurable),
  maxTokens: F.optional(F.positive),
  contextLength: F.optional(F.positive),
  ollamaNumCtx: F.optional(F.positive),
  streaming: F.withDefault(F.flag, true)
})

/** `providers.<id>`: deadlines in seconds. A model's deadlines override its provider's. */
export const provider = F.section({
  requestTimeoutSeconds: F.optional(F.seconds),
  staleTimeoutSeconds: F.optional(F.seconds),
  /** Address at which `hermes model login` logs in, instead of at the provider's own service. */
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
  /** Environment variable that holds the key. */
  keyEnv: F.optional(F.text),
  apiMode: F.optional(Configurable),
  models: F.withDefault(F.record(F.section({ contextLength: F.optional(F.positive) })), {})
})

/** `fallback_providers[]` and the older `fallback_model`. `api_key_env` is another name of `key_env`. */
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

/** `credential_pool_strategies.<provider>`. */
export const poolStrategy = F.choice(["fill_first", "round_robin", "random", "least_used"])

/** `provider_routing`: preferences for the providers behind OpenRouter. */
export const providerRouting = F.optionalSection({
  only: F.withDefault(F.texts, []),
  ignore: F.withDefault(F.texts, []),
  order: F.withDefault(F.texts, []),
  sort: F.optional(F.choice(["price", "throughput", "latency"])),
  requireParameters: F.optional(F.flag),
  dataCollection: F.optional(F.choice(["allow", "deny"]))
})

/**
 * `auxiliary.<task>`: who does a side task. The default of `timeout` depends on the task:
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
 * `bedrock`: a guardrail needs identifier and version, and every route of a run has to be one of Bedrock:
 * `DerivedSettings.readGuardrail`.
 */
export const bedrock = F.optionalSection({
  guardrail: F.optionalSection({
    guardrailIdentifier: F.optional(F.text),
    /** A number, or `DRAFT`. */
    guardrailVersion: F.optional(F.argument),
    streamProcessingMode: F.optional(F.choice(["sync", "async"])),
    trace: F.optional(F.choice(["enabled", "disabled", "enabled_full"]))
  })
})

/**
 * `network`: deadlines of model calls in seconds. The contract defines them as environment variables
 * (`HERMES_API_TIMEOUT`, `HERMES_STREAM_READ_TIMEOUT`, …); defaults depend on the route (`hermes-llm.md` §2.5).
 */
export const network = F.optionalSection({
  requestTimeoutSeconds: F.optional(F.seconds),
  streamReadTimeoutSeconds: F.optional(F.seconds),
  streamStaleTimeoutSeconds: F.optional(F.seconds),
  callStaleTimeoutSeconds: F.optional(F.seconds),
  streamRetries: F.withDefault(F.count, 2)
})

/** `agent`. Times are seconds. */
export const agent = F.optionalSection({
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
  gatewayTimeout: F.withDefault(F.markUnsupported(F.seconds), 1800),
  /** `auto` decides by the model's name; a list holds parts of names. */
  toolUseEnforcement: F.withDefault(
    Schema.Union([Schema.Literal("auto"), Schema.Boolean, F.texts]).annotate({
      expected: "auto, true, false or a list of model names"
    }),
    "auto"
  ),
  /** Description of the place where the agent works, for the model: part of the system prompt of each new session. */
  environmentHint: F.optional(F.text)
})

/**
 * `delegation`: limits of a child agent, and its route, which overrides the parent's as one source overrides another
 * (`RouteStatement`).
 *
 * **Details**
 *
 * The periods of the contract differ; the middle one holds, with the spawn depth of 2 and the one `delegate_task` per
 * step of `ARCHITECTURE.md` §7. A child has no deadline unless one is set, and then at least half a minute.
 */
export const delegation = F.optionalSection({
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

const limitSection = (exactFailure: number, sameToolFailure: number, idempotentNoProgress: number) =>
  F.optionalSection({
    exactFailure: F.withDefault(F.positive, exactFailure),
    sameToolFailure: F.withDefault(F.positive, sameToolFailure),
    idempotentNoProgress: F.withDefault(F.positive, idempotentNoProgress)
  })

/** `tool_loop_guardrails`: how many repetitions of one run are warned about, and how many end it. */
export const toolLoopGuardrails = F.optionalSection({
  warningsEnabled: F.withDefault(F.flag, true),
  hardStopEnabled: F.withDefault(F.flag, false),
  warnAfter: limitSection(2, 3, 2),
  hardStopAfter: limitSection(5, 8, 5)
})

/** `compression`: when the conversation is compacted, and which parts remain. */
export const compression = F.optionalSection({
  enabled: F.withDefault(F.wordyFlag, true),
  /** Share of the context window that triggers it. */
  threshold: F.withDefault(F.ratio, 0.5),
  /** Share of the trigger that is retained as recent context. */
  targetRatio: F.withDefault(F.number({ least: 0.1, most: 0.8 }), 0.2),
  protectFirstN: F.withDefault(F.integer({ least: 0 }), 3),
  protectLastN: F.withDefault(F.count, 20)
})

/** `context`: the engine that compacts. */
export const context = F.optionalSection({ engine: F.withDefault(F.text, "compressor") })

/**
 * `prompt_caching`: `1h` caches the prefix of a conversation for an hour if the provider supports it; any other value
 * means five minutes.
 */
export const promptCaching = F.optionalSection({ cacheTtl: F.withDefault(F.text, "5m") })

/**
 * `memory`: limits are characters; the nudge interval counts turns of the user until a background review, 0 is never.
 */
export const memory = F.optionalSection({
  memoryEnabled: F.withDefault(F.flag, true),
  userProfileEnabled: F.withDefault(F.flag, true),
  memoryCharLimit: F.withDefault(F.positive, 2200),
  userCharLimit: F.withDefault(F.positive, 1375),
  nudgeInterval: F.withDefault(F.count, 10),
  /** Name of an external memory besides the built-in one, which a plugin brings. */
  provider: F.optional(F.text)
})

/**
 * `skills`. The nudge interval counts model calls until a background review, 0 is never; the two specifications differ
 * on it (10, 15), the table of keys holds.
 */
export const skills = F.optionalSection({
  creationNudgeInterval: F.withDefault(F.count, 15),
  externalDirs: F.withDefault(F.paths, []),
  disabled: F.withDefault(F.texts, []),
  templateVars: F.withDefault(F.flag, true),
  /** Runs the commands that a skill has between !` and `, when the model reads it. */
  inlineShell: F.withDefault(F.flag, false)
})

/** `terminal`: times are seconds. */
export const terminal = F.optionalSection({
  /** `auto`: the sandbox where this machine can build one, else this machine as it is, which is said once. */
  backend: F.withDefault(
    F.markUnsupported(F.choice(["auto", "local", "sandbox", "docker", "singularity", "modal", "daytona", "ssh"]), {
      holds: ["auto", "local", "sandbox", "docker", "ssh"],
      stops: true,
      remedy: "commands would run on this machine; set it to local to allow that, or to sandbox to confine them"
    }),
    "auto"
  ),
  timeout: F.withDefault(F.seconds, 180),
  /** Time without use after which a container is removed and a connection closed. */
  lifetimeSeconds: F.withDefault(F.seconds, 300),
  /** Working directory of the backend `ssh`; the user's home directory there without it. */
  cwd: F.optional(F.text),
  /** Credential-like variables that commands receive, but never variables of providers, messengers and forges. */
  envPassthrough: F.withDefault(F.texts, []),
  /** Seconds that a single-query run waits for background processes that will report. */
  oneshotCompletionWaitSeconds: F.withDefault(F.number({ least: 0 }), 600),
  /**
   * Limits of one command and all that it starts; a sandbox bounds processes, memory and temporary files where absent.
   */
  limits: F.optionalSection({
    /** Processor time of all its processes together. */
    cpuSeconds: F.optional(F.seconds),
    memoryMb: F.optional(F.positive),
    /** Processes at a time. */
    processes: F.optional(F.positive),
    outputMb: F.optional(F.positive),
    /** Files in `/tmp` and `/var/tmp` of a sandbox, of all commands of a conversation together. */
    temporaryMb: F.optional(F.positive)
  }),
  /** Program of the container engine. Default: Docker, else Podman. */
  dockerBinary: F.optional(F.text),
  dockerImage: F.withDefault(F.text, "nikolaik/python-nodejs:python3.11-nodejs20"),
  /** `false`: commands work on a copy of the working tree. */
  dockerMountCwdToWorkspace: F.withDefault(F.flag, true),
  /** `source:target` or `source:target:ro`. */
  dockerVolumes: F.withDefault(F.texts, []),
  /** Variables of the program that commands in a container get. */
  dockerForwardEnv: F.withDefault(F.texts, []),
  /** Variables of commands in a container. */
  dockerEnv: F.withDefault(F.record(F.variable), {}),
  /** Further arguments of `docker run`. */
  dockerExtraArgs: F.withDefault(F.texts, []),
  /** `false`: as the user of the image. */
  dockerRunAsHostUser: F.withDefault(F.flag, true),
  containerCpu: F.optional(F.number({ least: 0.01 })),
  /** Megabytes. */
  containerMemory: F.withDefault(F.positive, 5120),
  /** Megabytes, where the storage of the engine has quotas. */
  containerDisk: F.optional(F.positive),
  /** Processes. */
  containerPids: F.withDefault(F.positive, 512),
  /** Keeps the home directory in a container for the next session of the same working tree. */
  containerPersistent: F.withDefault(F.flag, false),
  sshHost: F.optional(F.text),
  sshUser: F.optional(F.text),
  sshPort: F.optional(F.positive),
  /** File of a private key. */
  sshKey: F.optional(F.text),
  /** Bounds of the sandbox. Its policy, its network and `hide_env_files` hold for containers too. */
  sandbox: F.optionalSection({
    /** No run starts if the sandbox cannot be set up. */
    required: F.withDefault(F.flag, false),
    /**
     * `full` disables the sandbox. Absent: `workspace-write`, but `read-only` in an untrusted folder that has its own
     * files (see `FolderTrust`).
     */
    policy: F.optional(F.choice(["workspace-write", "read-only", "full"])),
    /** Absent: `hosts` where the policy is `workspace-write`, else `none`. */
    network: F.optional(F.choice(["none", "hosts", "all"])),
    /**
     * Hosts that web tools, and commands where the network is `hosts`, reach without a question: `example.com`,
     * `*.example.com`.
     */
    hosts: F.withDefault(F.texts, []),
    /** Directories that are written besides the working tree. */
    write: F.withDefault(F.paths, []),
    /** Files and directories that are not seen, besides those with credentials. */
    hide: F.withDefault(F.paths, []),
    hideEnvFiles: F.withDefault(F.flag, true)
  })
})

/** `tool_output`: limits of the output of tools. */
export const toolOutput = F.optionalSection({
  maxBytes: F.withDefault(F.positive, 50_000),
  maxLines: F.withDefault(F.positive, 2000),
  maxLineLength: F.withDefault(F.positive, 2000)
})

/** `code_execution`. */
export const codeExecution = F.optionalSection({
  mode: F.withDefault(F.choice(["project", "strict"]), "project"),
  timeout: F.withDefault(F.seconds, 300),
  maxToolCalls: F.withDefault(F.positive, 50)
})

/**
 * `sandbox` of a program that the user named, an MCP server or a shell hook: `full` disables it. `terminal.sandbox` has
 * the defaults of `network` and `hosts`.
 */
export const programSandbox = Schema.Union([
  F.choice(["full", "workspace-write", "read-only"]),
  F.section({
    policy: F.choice(["workspace-write", "read-only"]),
    network: F.optional(F.choice(["none", "hosts", "all"])),
    hosts: F.optional(F.texts)
  })
]).annotate({ expected: "full, workspace-write, read-only, or policy, network and hosts" })

/** Value of {@link programSandbox}. */
export type ProgramSandbox = typeof programSandbox.Type

/**
 * `mcp_servers.<name>`: `command` for a server that is started, `url` for one that runs. Values of `env` and `headers`
 * are taken for secrets.
 */
export const mcpServer = F.openSection({
  command: F.optional(F.text),
  args: F.withDefault(Schema.Array(F.argument), []),
  env: F.withDefault(F.record(F.variable), {}),
  cwd: F.optional(F.text),
  /** Wall around the program of `command`. */
  sandbox: F.withDefault(programSandbox, "full"),
  url: F.optional(F.text),
  headers: F.withDefault(F.record(F.variable), {}),
  enabled: F.withDefault(F.flag, true),
  timeout: F.withDefault(F.seconds, 120),
  connectTimeout: F.withDefault(F.seconds, 60),
  /** Seconds of silence before a server is pinged; 0 is never. */
  keepalive: F.withDefault(F.number({ least: 0 }), 180),
  /** Names or globs on the server's own tool names; `include` wins. */
  tools: F.withDefault(F.openSection({ include: F.optional(F.texts), exclude: F.optional(F.texts) }), {}),
  supportsParallelToolCalls: F.withDefault(F.flag, false),
  /**
   * Tools that run without approval; none when absent, regardless of the server's annotations. `tools` are names or
   * globs on the server's own tool names, `annotations` are the tools that the server declares read-only or not
   * destructive, `full` is all of them, `untrusted` none.
   */
  trust: F.optional(
    Schema.Union([
      F.choice(["full", "annotations", "untrusted"]),
      F.openSection({ tools: F.withDefault(F.texts, []), annotations: F.withDefault(F.flag, false) })
    ]).annotate({ expected: "full, annotations, untrusted, or tools: a list of tool names" })
  ),
  /** Marks a server that requires a login (`hermes mcp login`), with its known data. */
  oauth: F.optional(
    Schema.Union([
      F.flag,
      F.openSection({
        clientId: F.optional(F.text),
        clientSecret: F.optional(F.secret),
        /** `https` address of a document that describes this client, for servers that take it as its id. */
        clientMetadataUrl: F.optional(F.text),
        /** Rights to ask for, instead of those that the server names. */
        scope: F.optional(F.text),
        redirectPort: F.optional(F.integer({ least: 1 })),
        /** `client_credentials` logs in without a user, by the secret or the key of the client. */
        grant: F.withDefault(F.choice(["authorization_code", "client_credentials"]), "authorization_code"),
        /** Key in PKCS #8 (PEM) that signs for the client, instead of a secret. */
        privateKey: F.optional(F.secret),
        signingAlgorithm: F.withDefault(F.text, "ES256")
      })
    ]).annotate({
      expected:
        "true, or client_id, client_secret, client_metadata_url, scope, redirect_port, grant, private_key and " +
        "signing_algorithm"
    })
  ),
  /** Lets the server ask a model in the middle of a call, which costs money. */
  sampling: F.withDefault(F.openSection({ enabled: F.withDefault(F.flag, false) }), {}),
  /** Lets the server ask the user in the middle of a call. */
  elicitation: F.withDefault(F.openSection({ enabled: F.withDefault(F.flag, true) }), {})
})

/** `cron`: scheduled jobs. Times are seconds. */
export const cron = F.optionalSection({
  /** Jobs that run at once; without a limit when absent. */
  maxParallelJobs: F.optional(F.positive),
  /** Reports only once why a job cannot run, instead of at each of its times. */
  preflight: F.withDefault(F.flag, true),
  /** Shows a result with the name of its job. */
  wrapResponse: F.withDefault(F.flag, true),
  /** Of new jobs, such as `Europe/Berlin`; the machine's when absent. */
  timezone: F.optional(F.text),
  /** Lets a job make further jobs. */
  jobsMaySchedule: F.withDefault(F.flag, false),
  scriptTimeoutSeconds: F.withDefault(F.seconds, 120),
  /** Seconds that a whole run may take. */
  runTimeoutSeconds: F.withDefault(F.seconds, 3600)
})

/** `cluster`: several runner processes over one Postgres database. */
export const cluster = F.optionalSection({
  /** `postgres://user:password@host:port/database`. */
  databaseUrl: F.optional(F.secret),
  /** Runs at a time of one runner. */
  concurrency: F.withDefault(F.positive, 8),
  /** Seconds that a draining runner waits for its runs; the remaining runs continue elsewhere. */
  drainTimeoutSeconds: F.withDefault(F.seconds, 300),
  /** Tokens, and US dollars, of all runs of all runners; without a limit when absent. */
  budgetTokens: F.optional(F.positive),
  budgetDollars: F.optional(F.number({ least: 0 })),
  /** Days after its end that a run and the data of its workflow are stored; sessions remain. */
  retentionDays: F.withDefault(F.positive, 30),
  /** Keeps scheduled jobs in the database, and has the runners run each once. */
  runsCron: F.withDefault(F.flag, false)
})

/**
 * `server`: clients of `hermes serve` with separate keys, by their names. Each has one of `key`, `key_env` and
 * `key_file`.
 */
export const server = F.optionalSection({
  keys: F.withDefault(
    F.record(
      F.section({
        key: F.optional(F.secret),
        /** Environment variable that holds the key. */
        keyEnv: F.optional(F.text),
        /** File that holds the key, and nothing else. */
        keyFile: F.optional(F.text),
        /** Loosest mode of the client's sessions; the mode of the server when absent. */
        maxMode: F.optional(F.choice(PermissionMode.all)),
        /** Sessions of the client that are open at once. */
        maxSessions: F.optional(F.positive),
        /** Requests of the client that are answered at once. */
        maxRequests: F.optional(F.positive),
        /** Answers of the client that are open at once, streams of events among them. */
        maxConnections: F.optional(F.positive)
      })
    ),
    {}
  )
})

const unattended = F.choice(["deny", "approve"])

/** `approvals`: times are seconds, and silence is deny. */
export const approvals = F.optionalSection({
  mode: F.withDefault(F.choice(["manual", "smart", "off"]), "manual"),
  /** `plan`, `ask`, `edits`, `auto` or `yolo`; `mode` decides when absent. */
  defaultMode: F.optional(F.choice(PermissionMode.all)),
  timeout: F.withDefault(F.seconds, 60),
  /** For answers that come from elsewhere: a messenger, a page. */
  gatewayTimeout: F.withDefault(F.seconds, 300),
  cronMode: F.withDefault(unattended, "deny"),
  singleQueryMode: F.withDefault(unattended, "deny"),
  /** Answer if the run was not started at a terminal: the MCP server. */
  unattendedMode: F.withDefault(unattended, "deny"),
  /** Commands that are not known to be read-only, outside of a sandbox; `allow` is for disposable machines. */
  unknownCommands: F.withDefault(F.choice(["ask", "allow"]), "ask"),
  /** Globs of commands that never run; nothing but an edit of this list lifts them. */
  deny: F.withDefault(F.texts, []),
  /** No slash command of this program destroys anything: a session that is left stays in the store. */
  destructiveSlashConfirm: F.withDefault(F.markUnsupported(F.flag, { holds: [false] }), true)
})

const rules = F.withDefault(Schema.Array(F.command), [])

/**
 * `permissions`: rules per tool and pattern, such as `terminal(npm test:*)`. `deny` beats `ask`, and `ask` beats
 * `allow`.
 */
export const permissions = F.optionalSection({ allow: rules, ask: rules, deny: rules })

/** `security`. Secrets are redacted unless this says otherwise; the periods differ, and this is the safer one. */
export const security = F.optionalSection({
  allowPrivateUrls: F.withDefault(F.wordyFlag, false),
  /**
   * `ask` before web tools and commands reach a host that is neither listed (`permissions.allow`,
   * `terminal.sandbox.hosts`) nor approved.
   */
  unknownHosts: F.withDefault(F.choice(["allow", "ask"]), "ask"),
  redactSecrets: F.withDefault(F.wordyFlag, true),
  /** Directories that file tools may write to; anywhere when empty. */
  writeSafeRoot: F.withDefault(F.paths, []),
  tirithEnabled: F.withDefault(F.flag, true),
  tirithPath: F.withDefault(F.text, "tirith"),
  tirithTimeout: F.withDefault(F.seconds, 5),
  tirithFailOpen: F.withDefault(F.flag, true)
})
