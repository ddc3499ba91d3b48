/**
 * Names of version 1.36 of the semantic conventions. It has neither attributes for messages, calls, results, caches and
 * reasoning, nor any names for MCP.
 */
import type { Table } from "../Conventions.ts"

/** The names of this version. */
export const table: Table = {
  version: "1.36.0",
  schemaUrl: "https://opentelemetry.io/schemas/1.36.0",
  attributes: {
    "error.type": "error.type",
    "gen_ai.agent.id": "gen_ai.agent.id",
    "gen_ai.agent.name": "gen_ai.agent.name",
    "gen_ai.conversation.id": "gen_ai.conversation.id",
    "gen_ai.input.messages": "hermes.input.messages",
    "gen_ai.operation.name": "gen_ai.operation.name",
    "gen_ai.output.messages": "hermes.output.messages",
    "gen_ai.prompt.name": "hermes.prompt.name",
    "gen_ai.provider.name": "gen_ai.system",
    "gen_ai.request.max_tokens": "gen_ai.request.max_tokens",
    "gen_ai.request.model": "gen_ai.request.model",
    "gen_ai.request.stream": "hermes.request.stream",
    "gen_ai.request.temperature": "gen_ai.request.temperature",
    "gen_ai.request.top_p": "gen_ai.request.top_p",
    "gen_ai.response.finish_reasons": "gen_ai.response.finish_reasons",
    "gen_ai.response.id": "gen_ai.response.id",
    "gen_ai.response.model": "gen_ai.response.model",
    "gen_ai.response.time_to_first_chunk": "hermes.response.time_to_first_chunk",
    "gen_ai.system_instructions": "hermes.system_instructions",
    "gen_ai.token.type": "gen_ai.token.type",
    "gen_ai.tool.call.arguments": "hermes.tool.call.arguments",
    "gen_ai.tool.call.id": "gen_ai.tool.call.id",
    "gen_ai.tool.call.result": "hermes.tool.call.result",
    "gen_ai.tool.name": "gen_ai.tool.name",
    "gen_ai.tool.type": "gen_ai.tool.type",
    "gen_ai.usage.cache_creation.input_tokens": "hermes.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_read.input_tokens": "hermes.usage.cache_read.input_tokens",
    "gen_ai.usage.input_tokens": "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens": "gen_ai.usage.output_tokens",
    "gen_ai.usage.reasoning.output_tokens": "hermes.usage.reasoning.output_tokens",
    "http.response.status_code": "http.response.status_code",
    "mcp.method.name": "hermes.mcp.method.name",
    "mcp.protocol.version": "hermes.mcp.protocol.version",
    "mcp.resource.uri": "hermes.mcp.resource.uri",
    "mcp.session.id": "hermes.mcp.session.id",
    "network.protocol.name": "network.protocol.name",
    "network.transport": "network.transport",
    "server.address": "server.address",
    "server.port": "server.port"
  },
  agentAttributes: {},
  metrics: {
    "gen_ai.client.operation.duration": "gen_ai.client.operation.duration",
    "gen_ai.client.operation.time_to_first_chunk": "hermes.client.operation.time_to_first_chunk",
    "gen_ai.execute_tool.duration": "hermes.execute_tool.duration",
    "gen_ai.invoke_agent.duration": "hermes.invoke_agent.duration",
    "mcp.client.operation.duration": "hermes.mcp.client.operation.duration"
  },
  tokens: {
    input: [{ name: "gen_ai.client.token.usage", kind: "histogram" }],
    output: [{ name: "gen_ai.client.token.usage", kind: "histogram" }],
    cacheRead: [],
    cacheWrite: [],
    reasoning: [],
    typeLabel: "gen_ai.token.type"
  }
}
