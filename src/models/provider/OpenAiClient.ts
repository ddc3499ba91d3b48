/**
 * The official OpenAI SDK for one route, and the only file that knows it.
 *
 * **Details**
 *
 * The SDK is loaded when a client is made. It retries nothing and logs nothing, sends through `HttpTransport`, and
 * gets address, key, query and headers from the route. Of its own environment variables, organisation and project hold
 * for OpenAI's own host alone; all others never.
 *
 * An endpoint without a key gets a placeholder, because the SDK insists on one; OpenAI itself does not. Azure wants the
 * key under its own header.
 *
 * **Gotchas**
 *
 * The timeout limits the wait for the start of an answer, and the reading of an answer that is not streamed. The reader
 * of a stream has to detect silence.
 */
import type { OpenAI } from "openai"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { ConfigError } from "../../base/domain/AgentError.ts"
import type { Route } from "../../base/domain/Route.ts"
import { registerSecrets } from "../../base/domain/Secrets.ts"
import { rethrowImport } from "../../base/platform/OptionalPackage.ts"
import type { HttpTransport } from "../../base/platform/HttpTransport.ts"
import { withoutVariables } from "../../base/platform/ProcessVariables.ts"
import type { PostedRequest } from "./Exchange.ts"
import type * as Exchange from "./Exchange.ts"
import type { RouteOptions } from "./Provider.ts"
import * as SdkSetup from "./SdkSetup.ts"

/** Address of a route of provider `openai` that names none. No key of another provider may go there. */
const defaultBaseUrl = "https://api.openai.com/v1"

const placeholderKey = "no-key-required"
const defaultTimeoutMillis = 1_800_000

/** Sends one request. */
interface OpenAiClient {
  readonly baseUrl: string
  readonly timeoutMillis: number
  readonly post: (path: string, outgoing: Outgoing, signal: AbortSignal) => PostedRequest
}

/** The parts of a request; the body may be JSON already. */
interface Outgoing extends Omit<Exchange.Extras, "body"> {
  readonly body: Exchange.Extras["body"] | string
}

const isOwn = (baseUrl: string): boolean => URL.parse(baseUrl)?.hostname === "api.openai.com"

const isAzure = (baseUrl: string): boolean => {
  const host = URL.parse(baseUrl)?.hostname ?? ""
  return host.endsWith(".azure.com")
}

const makeHeaders = (route: Route, baseUrl: string, key: string): Record<string, string | null> => ({
  ...(isAzure(baseUrl) ? { "api-key": key, authorization: null } : {}),
  ...route.headers
})

/** Variables of the SDK that hold for OpenAI's own host. */
const ownVariables = ["OPENAI_ORG_ID", "OPENAI_PROJECT_ID"]

/** Headers of a request whose body is JSON already. */
const jsonText = { "content-type": "application/json" }

type Build = OpenAI["buildRequest"]
type Send = OpenAI["fetchWithTimeout"]
type Built = Awaited<ReturnType<Build>>

/**
 * The SDK's client. Requests with a JSON body differ only in this body: the rest of the first request to a path
 * (address, key, headers), built by the SDK, is reused for all.
 */
const makeClientClass = (sdk: typeof import("openai"), fetch: HttpTransport) =>
  // The SDK sends the name of the class as its own.
  class OpenAI extends sdk.OpenAI {
    readonly #built = new Map<string, Built>()

    override async buildRequest(...[options, context]: Parameters<Build>): Promise<Built> {
      const { body, headers, path, query, signal } = options
      if (headers !== jsonText || typeof body !== "string" || query !== undefined)
        return super.buildRequest(options, context)
      const known = this.#built.get(path)
      if (known !== undefined) return { ...known, req: { ...known.req, body, signal: signal ?? null } }
      const built = await super.buildRequest(options, context)
      fetch.fixed(built.req.headers)
      this.#built.set(path, { ...built, req: { ...built.req, body: null, signal: null } })
      return built
    }

    /**
     * The transport watches the caller's signal and the time; the SDK would compose a signal of both for each request.
     */
    override fetchWithTimeout(...[url, init, millis]: Parameters<Send>): Promise<Response> {
      return fetch(url, init, millis)
    }
  }

const makeClient = (
  sdk: typeof import("openai"),
  route: Route,
  baseUrl: string,
  key: string,
  fetch: HttpTransport
): OpenAI =>
  withoutVariables(
    "OPENAI_",
    isOwn(baseUrl) ? ownVariables : [],
    () =>
      new (makeClientClass(sdk, fetch))({
        apiKey: key,
        baseURL: baseUrl,
        defaultHeaders: makeHeaders(route, baseUrl, key),
        defaultQuery: { ...route.query },
        timeout: SdkSetup.computeTimeout(route, defaultTimeoutMillis),
        maxRetries: 0,
        logLevel: "off",
        fetch
      })
  )

/** A client of one route. The scope closes its connections. */
export const make = Effect.fnUntraced(function* (
  route: Route
): Effect.fn.Return<OpenAiClient, ConfigError, Scope.Scope> {
  yield* registerSecrets(route)
  if (route.baseUrl === undefined && route.provider.trim().toLowerCase() !== "openai") {
    return yield* new ConfigError({
      path: "model.base_url",
      message: `provider ${route.provider} has no address here: set model.base_url`
    })
  }
  const baseUrl = route.baseUrl ?? defaultBaseUrl
  const given = route.apiKey === undefined ? "" : Redacted.value(route.apiKey).trim()
  if (given === "" && isOwn(baseUrl) && route.headers?.["authorization"] === undefined) {
    return yield* new ConfigError({
      path: "OPENAI_API_KEY",
      message: "OpenAI needs a key: set OPENAI_API_KEY, or model.base_url for another endpoint"
    })
  }
  const [sdk, fetch] = yield* SdkSetup.loadSdk(route, "openai", () => import("openai").catch(rethrowImport))
  const client = makeClient(sdk, route, baseUrl, given === "" ? placeholderKey : given, fetch)
  return {
    baseUrl,
    timeoutMillis: client.timeout,
    // `post` and not the method of the resource: that one walks the whole body to see whether it asks for a stream.
    // A text is sent as it is where its type is named, and would be encoded again elsewhere.
    post: (path, { body, headers, query }, signal) =>
      client.post<unknown>(path, { body, headers: typeof body === "string" ? jsonText : headers, query, signal })
  }
})

/** Makes the route for options. If the provider is absent, it is `openai`, or `custom` if an address is given. */
export const makeRoute = (options: RouteOptions, apiMode: Route["apiMode"]): Route => ({
  ...options,
  provider: options.provider ?? (options.baseUrl === undefined ? "openai" : "custom"),
  apiMode
})
