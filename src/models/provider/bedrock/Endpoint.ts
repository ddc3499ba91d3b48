/**
 * Determines the region, address and credentials of a Bedrock route.
 *
 * **Details**
 *
 * The region comes from the route, otherwise from the address (`bedrock-runtime.<region>.amazonaws.com`), otherwise it
 * is `us-east-1`. A Bedrock API key is sent as a bearer token; without an API key, requests are signed with credentials
 * from the AWS credential chain. A bearer token from the environment is sent only to AWS; requests to any other address
 * are signed, which reveals no secret.
 *
 * Source: `hermes-llm.md` §2.2, §2.3, §4.4.
 */
import type { BedrockRuntimeClientConfig } from "@aws-sdk/client-bedrock-runtime"
import * as Redacted from "effect/Redacted"
import type { Route } from "../../../base/domain/Route.ts"
import type { Variables } from "../../../base/platform/ProcessVariables.ts"

/** The region, address and credentials of a Bedrock route. */
export interface Endpoint {
  readonly region: string
  /** Custom address; `undefined` for the standard AWS address of the region. */
  readonly address: string | undefined
  /** A Bedrock API key. */
  readonly token: string | undefined
  /** Authentication scheme of requests; `undefined` if the SDK chooses it. */
  readonly scheme: "httpBearerAuth" | "sigv4" | undefined
}

const defaultRegion = "us-east-1"
/** Value of the API key setting that selects the AWS credential chain. */
const chainMarker = "aws-sdk"

const parseRegion = (host: string): string | undefined =>
  /^bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$/.exec(host)?.[1]

const isAws = (host: string): boolean => /(^|\.)amazonaws\.com(\.cn)?$/.test(host)

/** Returns the endpoint of a route; `variables` are the process variables. */
export const fromRoute = (route: Route, variables: Variables = {}): Endpoint => {
  const host = route.baseUrl === undefined ? "" : (URL.parse(route.baseUrl)?.hostname ?? "")
  const key = route.apiKey === undefined ? "" : Redacted.value(route.apiKey)
  const isOwn = route.baseUrl === undefined || isAws(host)
  const token =
    key !== "" && key !== chainMarker ? key : isOwn ? variables["AWS_BEARER_TOKEN_BEDROCK"] || undefined : undefined
  return {
    region: route.region ?? parseRegion(host) ?? defaultRegion,
    address: route.baseUrl,
    token,
    scheme: token !== undefined ? "httpBearerAuth" : isOwn ? undefined : "sigv4"
  }
}

type Credentials = Extract<BedrockRuntimeClientConfig["credentials"], { readonly accessKeyId: string }>

/** Tests whether the AWS credential chain prefers the credentials of a profile over those in the environment. */
const hasProfile = (variables: Variables): boolean => Boolean(variables["AWS_PROFILE"])

/**
 * Tests whether the credential chain needs variables that are otherwise removed from `process.env`. It needs them for a
 * profile that takes its credentials from the environment (`credential_source`), and to request credentials from a
 * container's endpoint.
 */
export const needsEnvironment = (variables: Variables): boolean =>
  hasProfile(variables) ||
  (readCredentials(variables) === undefined && Boolean(variables["AWS_CONTAINER_AUTHORIZATION_TOKEN"]))

/**
 * Reads the AWS credentials from the environment variables, or returns `undefined` if the credential chain has to find
 * them.
 */
export const readCredentials = (variables: Variables): Credentials | undefined => {
  const accessKeyId = variables["AWS_ACCESS_KEY_ID"]
  const secretAccessKey = variables["AWS_SECRET_ACCESS_KEY"]
  if (hasProfile(variables) || !accessKeyId || !secretAccessKey) return undefined
  const {
    AWS_ACCOUNT_ID: accountId,
    AWS_CREDENTIAL_EXPIRATION: expiration,
    AWS_CREDENTIAL_SCOPE: credentialScope,
    AWS_SESSION_TOKEN: sessionToken
  } = variables
  return {
    accessKeyId,
    secretAccessKey,
    ...(sessionToken ? { sessionToken } : {}),
    ...(expiration ? { expiration: new Date(expiration) } : {}),
    ...(credentialScope ? { credentialScope } : {}),
    ...(accountId ? { accountId } : {})
  }
}
