/** Sections of the settings for programs that the user configured: their sandbox, and MCP servers. */
import * as Schema from "effect/Schema"
import * as F from "./Fields.ts"

/**
 * `sandbox` of a program that the user configured: an MCP server or a shell hook. `full` disables the sandbox.
 * `network` and `hosts` default to the values in `terminal.sandbox`.
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
 * `mcp_servers.<name>`: `command` for a server that is started, `url` for a server that is already running. Values of
 * `env` and `headers` are treated as secrets.
 */
export const mcpServer = F.openSection({
  command: F.optional(F.text),
  args: F.withDefault(Schema.Array(F.argument), []),
  env: F.withDefault(F.record(F.variable), {}),
  cwd: F.optional(F.text),
  /** Sandbox in which `command` runs. */
  sandbox: F.withDefault(programSandbox, "full"),
  url: F.optional(F.text),
  headers: F.withDefault(F.record(F.variable), {}),
  enabled: F.withDefault(F.flag, true),
  timeout: F.withDefault(F.seconds, 120),
  connectTimeout: F.withDefault(F.seconds, 60),
  /** Seconds of silence before a server is pinged; 0 disables pings. */
  keepalive: F.withDefault(F.number({ least: 0 }), 180),
  /** Tools of the server to include or exclude, as tool names or globs; `include` takes precedence. */
  tools: F.withDefault(F.openSection({ include: F.optional(F.texts), exclude: F.optional(F.texts) }), {}),
  supportsParallelToolCalls: F.withDefault(F.flag, false),
  /**
   * Tools that run without approval. By default every tool needs approval, regardless of the server's annotations.
   * `tools` lists tool names or globs. `annotations` trusts the tools that the server declares read-only or not
   * destructive, `full` trusts all tools, and `untrusted` trusts no tools.
   */
  trust: F.optional(
    Schema.Union([
      F.choice(["full", "annotations", "untrusted"]),
      F.openSection({ tools: F.withDefault(F.texts, []), annotations: F.withDefault(F.flag, false) })
    ]).annotate({ expected: "full, annotations, untrusted, or tools: a list of tool names" })
  ),
  /** OAuth settings, or `true`, for a server that requires a login (`hermes mcp login`). */
  oauth: F.optional(
    Schema.Union([
      F.flag,
      F.openSection({
        clientId: F.optional(F.text),
        clientSecret: F.optional(F.secret),
        /**
         * `https` address of a document that describes this client, for servers that accept such an address as a client
         * id.
         */
        clientMetadataUrl: F.optional(F.text),
        /** Scope to request instead of the scope that the server names. */
        scope: F.optional(F.text),
        redirectPort: F.optional(F.integer({ least: 1 })),
        /**
         * OAuth grant. `client_credentials` logs in without a user, with the secret or the private key of the client.
         */
        grant: F.withDefault(F.choice(["authorization_code", "client_credentials"]), "authorization_code"),
        /** Private key in PKCS #8 (PEM) that authenticates the client instead of a secret. */
        privateKey: F.optional(F.secret),
        signingAlgorithm: F.withDefault(F.text, "ES256")
      })
    ]).annotate({
      expected:
        "true, or client_id, client_secret, client_metadata_url, scope, redirect_port, grant, private_key and " +
        "signing_algorithm"
    })
  ),
  /** Lets the server call a model during a tool call, which costs money. */
  sampling: F.withDefault(F.openSection({ enabled: F.withDefault(F.flag, false) }), {}),
  /** Lets the server ask the user during a tool call. */
  elicitation: F.withDefault(F.openSection({ enabled: F.withDefault(F.flag, true) }), {})
})
