/**
 * Region, address and credentials of a Bedrock route.
 *
 * **Details**
 *
 * The region is the route's, else the one in the address (`bedrock-runtime.<region>.amazonaws.com`), else `us-east-1`.
 * A Bedrock API key is sent as a bearer token; without one the AWS credential chain signs the request. A bearer token
 * from the environment is sent only to AWS: for any other address the chain signs, which reveals no secret.
 *
 * Source: `hermes-llm.md` §2.2, §2.3, §4.4.
 */
import type { BedrockRuntimeClientConfig } from "@aws-sdk/client-bedrock-runtime"
import * as Redacted from "effect/Redacted"
import type { Route } from "../../../base/domain/Route.ts"
import type { Variables } from "../../../base/platform/ProcessVariables.ts"

/** The place and the credentials of a Bedrock route. */
export interface Endpoint {
  readonly region: string
  /** Undefined for AWS's own address of the region. */
  readonly address: string | undefined
  /** A Bedrock API key. */
  readonly token: string | undefined
  /** The authentication of requests; undefined leaves it to the SDK. */
  readonly scheme: "httpBearerAuth" | "sigv4" | undefined
}

const defaultRegion = "us-east-1"
/** Key value that requests AWS credentials. */
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

/** Returns whether the chain prefers the credentials of a profile to the credentials in the environment. */
const hasProfile = (variables: Variables): boolean => Boolean(variables["AWS_PROFILE"])

/**
 * Tests whether the chain has to find hidden variables in `process.env`: for a profile that takes its credentials from
 * the environment (`credential_source`), and for the endpoint that a container asks for credentials.
 */
export const needsEnvironment = (variables: Variables): boolean =>
  hasProfile(variables) ||
  (readCredentials(variables) === undefined && Boolean(variables["AWS_CONTAINER_AUTHORIZATION_TOKEN"]))

/** The credentials of the environment, as the chain reads them; undefined leaves it to the chain. */
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
