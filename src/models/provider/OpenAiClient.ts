/**
 * Configures the official OpenAI SDK for one route. No other file depends on the SDK.
 *
 * **Details**
 *
 * The SDK is loaded when a client is created. The SDK does not retry or log, sends through `HttpTransport`, and gets
 * the address, key, query and headers from the route. Of the SDK's environment variables, organization and project are
 * used only for OpenAI's own host; the others are never used.
 *
 * An endpoint without a key gets a placeholder, because the SDK requires a key. OpenAI's own host requires a real key.
 * Azure expects the key in the `api-key` header.
 *
 * **Gotchas**
 *
 * The timeout limits the wait for the start of an answer, and the reading of an answer that is not streamed. The reader
 * of a stream must detect a stalled connection itself.
 */
import type { OpenAI } from "openai"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { ConfigError } from "../../base/domain/AgentError.ts"
import type { Route } from "../../base/domain/Route.ts"
import { registerSecrets } from "../../base/domain/Secrets.ts"
import { rethrowImport } from "../../base/platform/OptionalPackage.ts"
import type { HttpTransport } from "../../base/platform/ModelTransport.ts"
import { withoutVariables } from "../../base/platform/ProcessVariables.ts"
import type { PostedRequest } from "./Exchange.ts"
import type * as Exchange from "./Exchange.ts"
import type { RouteOptions } from "./Provider.ts"
import * as SdkSetup from "./SdkSetup.ts"

/**
 * Default base URL for routes of the provider `openai`. Other providers must specify a base URL, so that their keys are
 * never sent here.
 */
const defaultBaseUrl = "https://api.openai.com/v1"

const placeholderKey = "no-key-required"
const defaultTimeoutMillis = 1_800_000

/** Client that sends the requests of one route. */
interface OpenAiClient {
  readonly baseUrl: string
  readonly timeoutMillis: number
  readonly post: (path: string, outgoing: Outgoing, signal: AbortSignal) => PostedRequest
}

/** The parts of a request; the body may already be encoded as JSON text. */
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

/** Environment variables of the SDK that are used only for OpenAI's own host. */
const ownVariables = ["OPENAI_ORG_ID", "OPENAI_PROJECT_ID"]

/** Headers of a request whose body is already encoded as JSON text. */
const jsonText = { "content-type": "application/json" }

type Build = OpenAI["buildRequest"]
type Send = OpenAI["fetchWithTimeout"]
type Built = Awaited<ReturnType<Build>>

/** The first releases of the SDK build requests at once, and later ones await either. */
const toSdk = (built: Built): ReturnType<Build> =>
  // The SDK declares the types of its later releases.
  built as unknown as ReturnType<Build>

/**
 * Creates the subclass of the SDK's client. Requests whose body is JSON text differ only in the body, so the rest of
 * the first request to a path (address, key, headers), built by the SDK, is reused for later requests.
 */
const makeClientClass = (sdk: typeof import("openai"), fetch: HttpTransport) =>
  // The SDK sends the class name in its `user-agent` header, so the name must stay `OpenAI`.
  class OpenAI extends sdk.OpenAI {
    readonly #built = new Map<string, Built>()

    override buildRequest(...[options, context]: Parameters<Build>): ReturnType<Build> {
      const { body, headers, path, query, signal } = options
      if (headers !== jsonText || typeof body !== "string" || query !== undefined)
        return super.buildRequest(options, context)
      const known = this.#built.get(path)
      if (known !== undefined) return toSdk({ ...known, req: { ...known.req, body, signal: signal ?? null } })
      const rememberRequest = (built: Built): Built => {
        fetch.fixed(built.req.headers)
        this.#built.set(path, { ...built, req: { ...built.req, body: null, signal: null } })
        return built
      }
      const built: Built | Promise<Built> = super.buildRequest(options, context)
      return built instanceof Promise ? built.then(rememberRequest) : toSdk(rememberRequest(built))
    }

    /**
     * Sends through the transport, which observes the caller's signal and the timeout itself; the SDK would create a
     * combined signal for each request.
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
        dangerouslyAllowBrowser: route.allowBrowser === true,
        fetch
      })
  )

/** Creates the client for a route. Its connections are closed when the scope closes. */
export const make = Effect.fnUntraced(function* (
  route: Route
): Effect.fn.Return<OpenAiClient, ConfigError, Scope.Scope> {
  yield* registerSecrets(route)
  if (route.baseUrl === undefined && route.provider.trim().toLowerCase() !== "openai") {
    return yield* new ConfigError({
      path: "model.base_url",
      message: `provider ${route.provider} has no address: set model.base_url`
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
    // `post` is used because the SDK's resource method traverses the whole body to see whether it requests a stream.
    // The SDK sends a string body unchanged only if its content type is given; otherwise it would encode the string
    // again.
    post: (path, { body, headers, query }, signal) =>
      client.post<unknown>(path, { body, headers: typeof body === "string" ? jsonText : headers, query, signal })
  }
})

/**
 * Creates the route for the options. The provider defaults to `custom` if a base URL is given, otherwise to `openai`.
 */
export const makeRoute = ({ fetch: _, ...options }: RouteOptions, apiMode: Route["apiMode"]): Route => ({
  ...options,
  provider: options.provider ?? (options.baseUrl === undefined ? "openai" : "custom"),
  apiMode
})
