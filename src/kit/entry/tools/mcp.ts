/** Tools of MCP servers. */
export * as Mcp from "../../../tools/mcp/Mcp.ts"
export * as McpSdkClient from "../../../tools/mcp/McpSdkClient.ts"
export * as McpConnection from "../../../tools/mcp/McpConnection.ts"
export * as McpServers from "../../../tools/mcp/McpServers.ts"
