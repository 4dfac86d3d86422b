var at=globalThis,ct=at.ShadowRoot&&(at.ShadyCSS===void 0||at.ShadyCSS.nativeShadow)&&"adoptedStyleSheets"in Document.prototype&&"replace"in CSSStyleSheet.prototype,Ft=Symbol(),Bt=new WeakMap,lt=class{constructor(t,e,s){if(this._$cssResult$=!0,s!==Ft)throw Error("CSSResult is not constructable. Use `unsafeCSS` or `css` instead.");this.cssText=t,this.t=e}get styleSheet(){let t=this.o,e=this.t;if(ct&&t===void 0){let s=e!==void 0&&e.length===1;s&&(t=Bt.get(e)),t===void 0&&((this.o=t=new CSSStyleSheet).replaceSync(this.cssText),s&&Bt.set(e,t))}return t}toString(){return this.cssText}},Wt=r=>new lt(typeof r=="string"?r:r+"",void 0,Ft);var Vt=(r,t)=>{if(ct)r.adoptedStyleSheets=t.map(e=>e instanceof CSSStyleSheet?e:e.styleSheet);else for(let e of t){let s=document.createElement("style"),n=at.litNonce;n!==void 0&&s.setAttribute("nonce",n),s.textContent=e.cssText,r.appendChild(s)}},vt=ct?r=>r:r=>r instanceof CSSStyleSheet?(t=>{let e="";for(let s of t.cssRules)e+=s.cssText;return Wt(e)})(r):r;var{is:De,defineProperty:je,getOwnPropertyDescriptor:Be,getOwnPropertyNames:Fe,getOwnPropertySymbols:We,getPrototypeOf:Ve}=Object,ht=globalThis,Jt=ht.trustedTypes,Je=Jt?Jt.emptyScript:"",Ke=ht.reactiveElementPolyfillSupport,z=(r,t)=>r,_t={toAttribute(r,t){switch(t){case Boolean:r=r?Je:null;break;case Object:case Array:r=r==null?r:JSON.stringify(r)}return r},fromAttribute(r,t){let e=r;switch(t){case Boolean:e=r!==null;break;case Number:e=r===null?null:Number(r);break;case Object:case Array:try{e=JSON.parse(r)}catch{e=null}}return e}},zt=(r,t)=>!De(r,t),Kt={attribute:!0,type:String,converter:_t,reflect:!1,useDefault:!1,hasChanged:zt};Symbol.metadata??=Symbol("metadata"),ht.litPropertyMetadata??=new WeakMap;var T=class extends HTMLElement{static addInitializer(t){this._$Ei(),(this.l??=[]).push(t)}static get observedAttributes(){return this.finalize(),this._$Eh&&[...this._$Eh.keys()]}static createProperty(t,e=Kt){if(e.state&&(e.attribute=!1),this._$Ei(),this.prototype.hasOwnProperty(t)&&((e=Object.create(e)).wrapped=!0),this.elementProperties.set(t,e),!e.noAccessor){let s=Symbol(),n=this.getPropertyDescriptor(t,s,e);n!==void 0&&je(this.prototype,t,n)}}static getPropertyDescriptor(t,e,s){let{get:n,set:i}=Be(this.prototype,t)??{get(){return this[e]},set(o){this[e]=o}};return{get:n,set(o){let l=n?.call(this);i?.call(this,o),this.requestUpdate(t,l,s)},configurable:!0,enumerable:!0}}static getPropertyOptions(t){return this.elementProperties.get(t)??Kt}static _$Ei(){if(this.hasOwnProperty(z("elementProperties")))return;let t=Ve(this);t.finalize(),t.l!==void 0&&(this.l=[...t.l]),this.elementProperties=new Map(t.elementProperties)}static finalize(){if(this.hasOwnProperty(z("finalized")))return;if(this.finalized=!0,this._$Ei(),this.hasOwnProperty(z("properties"))){let e=this.properties,s=[...Fe(e),...We(e)];for(let n of s)this.createProperty(n,e[n])}let t=this[Symbol.metadata];if(t!==null){let e=litPropertyMetadata.get(t);if(e!==void 0)for(let[s,n]of e)this.elementProperties.set(s,n)}this._$Eh=new Map;for(let[e,s]of this.elementProperties){let n=this._$Eu(e,s);n!==void 0&&this._$Eh.set(n,e)}this.elementStyles=this.finalizeStyles(this.styles)}static finalizeStyles(t){let e=[];if(Array.isArray(t)){let s=new Set(t.flat(1/0).reverse());for(let n of s)e.unshift(vt(n))}else t!==void 0&&e.push(vt(t));return e}static _$Eu(t,e){let s=e.attribute;return s===!1?void 0:typeof s=="string"?s:typeof t=="string"?t.toLowerCase():void 0}constructor(){super(),this._$Ep=void 0,this.isUpdatePending=!1,this.hasUpdated=!1,this._$Em=null,this._$Ev()}_$Ev(){this._$ES=new Promise(t=>this.enableUpdating=t),this._$AL=new Map,this._$E_(),this.requestUpdate(),this.constructor.l?.forEach(t=>t(this))}addController(t){(this._$EO??=new Set).add(t),this.renderRoot!==void 0&&this.isConnected&&t.hostConnected?.()}removeController(t){this._$EO?.delete(t)}_$E_(){let t=new Map,e=this.constructor.elementProperties;for(let s of e.keys())this.hasOwnProperty(s)&&(t.set(s,this[s]),delete this[s]);t.size>0&&(this._$Ep=t)}createRenderRoot(){let t=this.shadowRoot??this.attachShadow(this.constructor.shadowRootOptions);return Vt(t,this.constructor.elementStyles),t}connectedCallback(){this.renderRoot??=this.createRenderRoot(),this.enableUpdating(!0),this._$EO?.forEach(t=>t.hostConnected?.())}enableUpdating(t){}disconnectedCallback(){this._$EO?.forEach(t=>t.hostDisconnected?.())}attributeChangedCallback(t,e,s){this._$AK(t,s)}_$ET(t,e){let s=this.constructor.elementProperties.get(t),n=this.constructor._$Eu(t,s);if(n!==void 0&&s.reflect===!0){let i=(s.converter?.toAttribute!==void 0?s.converter:_t).toAttribute(e,s.type);this._$Em=t,i==null?this.removeAttribute(n):this.setAttribute(n,i),this._$Em=null}}_$AK(t,e){let s=this.constructor,n=s._$Eh.get(t);if(n!==void 0&&this._$Em!==n){let i=s.getPropertyOptions(n),o=typeof i.converter=="function"?{fromAttribute:i.converter}:i.converter?.fromAttribute!==void 0?i.converter:_t;this._$Em=n;let l=o.fromAttribute(e,i.type);this[n]=l??this._$Ej?.get(n)??l,this._$Em=null}}requestUpdate(t,e,s,n=!1,i){if(t!==void 0){let o=this.constructor;if(n===!1&&(i=this[t]),s??=o.getPropertyOptions(t),!((s.hasChanged??zt)(i,e)||s.useDefault&&s.reflect&&i===this._$Ej?.get(t)&&!this.hasAttribute(o._$Eu(t,s))))return;this.C(t,e,s)}this.isUpdatePending===!1&&(this._$ES=this._$EP())}C(t,e,{useDefault:s,reflect:n,wrapped:i},o){s&&!(this._$Ej??=new Map).has(t)&&(this._$Ej.set(t,o??e??this[t]),i!==!0||o!==void 0)||(this._$AL.has(t)||(this.hasUpdated||s||(e=void 0),this._$AL.set(t,e)),n===!0&&this._$Em!==t&&(this._$Eq??=new Set).add(t))}async _$EP(){this.isUpdatePending=!0;try{await this._$ES}catch(e){Promise.reject(e)}let t=this.scheduleUpdate();return t!=null&&await t,!this.isUpdatePending}scheduleUpdate(){return this.performUpdate()}performUpdate(){if(!this.isUpdatePending)return;if(!this.hasUpdated){if(this.renderRoot??=this.createRenderRoot(),this._$Ep){for(let[n,i]of this._$Ep)this[n]=i;this._$Ep=void 0}let s=this.constructor.elementProperties;if(s.size>0)for(let[n,i]of s){let{wrapped:o}=i,l=this[n];o!==!0||this._$AL.has(n)||l===void 0||this.C(n,void 0,i,l)}}let t=!1,e=this._$AL;try{t=this.shouldUpdate(e),t?(this.willUpdate(e),this._$EO?.forEach(s=>s.hostUpdate?.()),this.update(e)):this._$EM()}catch(s){throw t=!1,this._$EM(),s}t&&this._$AE(e)}willUpdate(t){}_$AE(t){this._$EO?.forEach(e=>e.hostUpdated?.()),this.hasUpdated||(this.hasUpdated=!0,this.firstUpdated(t)),this.updated(t)}_$EM(){this._$AL=new Map,this.isUpdatePending=!1}get updateComplete(){return this.getUpdateComplete()}getUpdateComplete(){return this._$ES}shouldUpdate(t){return!0}update(t){this._$Eq&&=this._$Eq.forEach(e=>this._$ET(e,this[e])),this._$EM()}updated(t){}firstUpdated(t){}};T.elementStyles=[],T.shadowRootOptions={mode:"open"},T[z("elementProperties")]=new Map,T[z("finalized")]=new Map,Ke?.({ReactiveElement:T}),(ht.reactiveElementVersions??=[]).push("2.1.2");var Et=globalThis,Gt=r=>r,dt=Et.trustedTypes,Yt=dt?dt.createPolicy("lit-html",{createHTML:r=>r}):void 0,xt="$lit$",P=`lit$${Math.random().toFixed(9).slice(2)}$`,At="?"+P,ze=`<${At}>`,I=document,Y=()=>I.createComment(""),X=r=>r===null||typeof r!="object"&&typeof r!="function",Rt=Array.isArray,se=r=>Rt(r)||typeof r?.[Symbol.iterator]=="function",St=`[ 	
\f\r]`,G=/<(?:(!--|\/[^a-zA-Z])|(\/?[a-zA-Z][^>\s]*)|(\/?$))/g,Xt=/-->/g,Qt=/>/g,N=RegExp(`>|${St}(?:([^\\s"'>=/]+)(${St}*=${St}*(?:[^ 	
\f\r"'\`<>=]|("|')|))|$)`,"g"),Zt=/'/g,te=/"/g,re=/^(?:script|style|textarea|title)$/i,kt=r=>(t,...e)=>({_$litType$:r,strings:t,values:e}),a=kt(1),ne=kt(2),Is=kt(3),w=Symbol.for("lit-noChange"),d=Symbol.for("lit-nothing"),ee=new WeakMap,H=I.createTreeWalker(I,129);function ie(r,t){if(!Rt(r)||!r.hasOwnProperty("raw"))throw Error("invalid template strings array");return Yt!==void 0?Yt.createHTML(t):t}var oe=(r,t)=>{let e=r.length-1,s=[],n,i=t===2?"<svg>":t===3?"<math>":"",o=G;for(let l=0;l<e;l++){let h=r[l],p,m,c=-1,u=0;for(;u<h.length&&(o.lastIndex=u,m=o.exec(h),m!==null);)u=o.lastIndex,o===G?m[1]==="!--"?o=Xt:m[1]!==void 0?o=Qt:m[2]!==void 0?(re.test(m[2])&&(n=RegExp("</"+m[2],"g")),o=N):m[3]!==void 0&&(o=N):o===N?m[0]===">"?(o=n??G,c=-1):m[1]===void 0?c=-2:(c=o.lastIndex-m[2].length,p=m[1],o=m[3]===void 0?N:m[3]==='"'?te:Zt):o===te||o===Zt?o=N:o===Xt||o===Qt?o=G:(o=N,n=void 0);let f=o===N&&r[l+1].startsWith("/>")?" ":"";i+=o===G?h+ze:c>=0?(s.push(p),h.slice(0,c)+xt+h.slice(c)+P+f):h+P+(c===-2?l:f)}return[ie(r,i+(r[e]||"<?>")+(t===2?"</svg>":t===3?"</math>":"")),s]},Q=class r{constructor({strings:t,_$litType$:e},s){let n;this.parts=[];let i=0,o=0,l=t.length-1,h=this.parts,[p,m]=oe(t,e);if(this.el=r.createElement(p,s),H.currentNode=this.el.content,e===2||e===3){let c=this.el.content.firstChild;c.replaceWith(...c.childNodes)}for(;(n=H.nextNode())!==null&&h.length<l;){if(n.nodeType===1){if(n.hasAttributes())for(let c of n.getAttributeNames())if(c.endsWith(xt)){let u=m[o++],f=n.getAttribute(c).split(P),b=/([.?@])?(.*)/.exec(u);h.push({type:1,index:i,name:b[2],strings:f,ctor:b[1]==="."?ut:b[1]==="?"?mt:b[1]==="@"?ft:j}),n.removeAttribute(c)}else c.startsWith(P)&&(h.push({type:6,index:i}),n.removeAttribute(c));if(re.test(n.tagName)){let c=n.textContent.split(P),u=c.length-1;if(u>0){n.textContent=dt?dt.emptyScript:"";for(let f=0;f<u;f++)n.append(c[f],Y()),H.nextNode(),h.push({type:2,index:++i});n.append(c[u],Y())}}}else if(n.nodeType===8)if(n.data===At)h.push({type:2,index:i});else{let c=-1;for(;(c=n.data.indexOf(P,c+1))!==-1;)h.push({type:7,index:i}),c+=P.length-1}i++}}static createElement(t,e){let s=I.createElement("template");return s.innerHTML=t,s}};function D(r,t,e=r,s){if(t===w)return t;let n=s!==void 0?e._$Co?.[s]:e._$Cl,i=X(t)?void 0:t._$litDirective$;return n?.constructor!==i&&(n?._$AO?.(!1),i===void 0?n=void 0:(n=new i(r),n._$AT(r,e,s)),s!==void 0?(e._$Co??=[])[s]=n:e._$Cl=n),n!==void 0&&(t=D(r,n._$AS(r,t.values),n,s)),t}var pt=class{constructor(t,e){this._$AV=[],this._$AN=void 0,this._$AD=t,this._$AM=e}get parentNode(){return this._$AM.parentNode}get _$AU(){return this._$AM._$AU}u(t){let{el:{content:e},parts:s}=this._$AD,n=(t?.creationScope??I).importNode(e,!0);H.currentNode=n;let i=H.nextNode(),o=0,l=0,h=s[0];for(;h!==void 0;){if(o===h.index){let p;h.type===2?p=new W(i,i.nextSibling,this,t):h.type===1?p=new h.ctor(i,h.name,h.strings,this,t):h.type===6&&(p=new gt(i,this,t)),this._$AV.push(p),h=s[++l]}o!==h?.index&&(i=H.nextNode(),o++)}return H.currentNode=I,n}p(t){let e=0;for(let s of this._$AV)s!==void 0&&(s.strings!==void 0?(s._$AI(t,s,e),e+=s.strings.length-2):s._$AI(t[e])),e++}},W=class r{get _$AU(){return this._$AM?._$AU??this._$Cv}constructor(t,e,s,n){this.type=2,this._$AH=d,this._$AN=void 0,this._$AA=t,this._$AB=e,this._$AM=s,this.options=n,this._$Cv=n?.isConnected??!0}get parentNode(){let t=this._$AA.parentNode,e=this._$AM;return e!==void 0&&t?.nodeType===11&&(t=e.parentNode),t}get startNode(){return this._$AA}get endNode(){return this._$AB}_$AI(t,e=this){t=D(this,t,e),X(t)?t===d||t==null||t===""?(this._$AH!==d&&this._$AR(),this._$AH=d):t!==this._$AH&&t!==w&&this._(t):t._$litType$!==void 0?this.$(t):t.nodeType!==void 0?this.T(t):se(t)?this.k(t):this._(t)}O(t){return this._$AA.parentNode.insertBefore(t,this._$AB)}T(t){this._$AH!==t&&(this._$AR(),this._$AH=this.O(t))}_(t){this._$AH!==d&&X(this._$AH)?this._$AA.nextSibling.data=t:this.T(I.createTextNode(t)),this._$AH=t}$(t){let{values:e,_$litType$:s}=t,n=typeof s=="number"?this._$AC(t):(s.el===void 0&&(s.el=Q.createElement(ie(s.h,s.h[0]),this.options)),s);if(this._$AH?._$AD===n)this._$AH.p(e);else{let i=new pt(n,this),o=i.u(this.options);i.p(e),this.T(o),this._$AH=i}}_$AC(t){let e=ee.get(t.strings);return e===void 0&&ee.set(t.strings,e=new Q(t)),e}k(t){Rt(this._$AH)||(this._$AH=[],this._$AR());let e=this._$AH,s,n=0;for(let i of t)n===e.length?e.push(s=new r(this.O(Y()),this.O(Y()),this,this.options)):s=e[n],s._$AI(i),n++;n<e.length&&(this._$AR(s&&s._$AB.nextSibling,n),e.length=n)}_$AR(t=this._$AA.nextSibling,e){for(this._$AP?.(!1,!0,e);t!==this._$AB;){let s=Gt(t).nextSibling;Gt(t).remove(),t=s}}setConnected(t){this._$AM===void 0&&(this._$Cv=t,this._$AP?.(t))}},j=class{get tagName(){return this.element.tagName}get _$AU(){return this._$AM._$AU}constructor(t,e,s,n,i){this.type=1,this._$AH=d,this._$AN=void 0,this.element=t,this.name=e,this._$AM=n,this.options=i,s.length>2||s[0]!==""||s[1]!==""?(this._$AH=Array(s.length-1).fill(new String),this.strings=s):this._$AH=d}_$AI(t,e=this,s,n){let i=this.strings,o=!1;if(i===void 0)t=D(this,t,e,0),o=!X(t)||t!==this._$AH&&t!==w,o&&(this._$AH=t);else{let l=t,h,p;for(t=i[0],h=0;h<i.length-1;h++)p=D(this,l[s+h],e,h),p===w&&(p=this._$AH[h]),o||=!X(p)||p!==this._$AH[h],p===d?t=d:t!==d&&(t+=(p??"")+i[h+1]),this._$AH[h]=p}o&&!n&&this.j(t)}j(t){t===d?this.element.removeAttribute(this.name):this.element.setAttribute(this.name,t??"")}},ut=class extends j{constructor(){super(...arguments),this.type=3}j(t){this.element[this.name]=t===d?void 0:t}},mt=class extends j{constructor(){super(...arguments),this.type=4}j(t){this.element.toggleAttribute(this.name,!!t&&t!==d)}},ft=class extends j{constructor(t,e,s,n,i){super(t,e,s,n,i),this.type=5}_$AI(t,e=this){if((t=D(this,t,e,0)??d)===w)return;let s=this._$AH,n=t===d&&s!==d||t.capture!==s.capture||t.once!==s.once||t.passive!==s.passive,i=t!==d&&(s===d||n);n&&this.element.removeEventListener(this.name,this,s),i&&this.element.addEventListener(this.name,this,t),this._$AH=t}handleEvent(t){typeof this._$AH=="function"?this._$AH.call(this.options?.host??this.element,t):this._$AH.handleEvent(t)}},gt=class{constructor(t,e,s){this.element=t,this.type=6,this._$AN=void 0,this._$AM=e,this.options=s}get _$AU(){return this._$AM._$AU}_$AI(t){D(this,t)}},ae={M:xt,P,A:At,C:1,L:oe,R:pt,D:se,V:D,I:W,H:j,N:mt,U:ft,B:ut,F:gt},Ge=Et.litHtmlPolyfillSupport;Ge?.(Q,W),(Et.litHtmlVersions??=[]).push("3.3.3");var le=(r,t,e)=>{let s=e?.renderBefore??t,n=s._$litPart$;if(n===void 0){let i=e?.renderBefore??null;s._$litPart$=n=new W(t.insertBefore(Y(),i),i,void 0,e??{})}return n._$AI(r),n};var Tt=globalThis,y=class extends T{constructor(){super(...arguments),this.renderOptions={host:this},this._$Do=void 0}createRenderRoot(){let t=super.createRenderRoot();return this.renderOptions.renderBefore??=t.firstChild,t}update(t){let e=this.render();this.hasUpdated||(this.renderOptions.isConnected=this.isConnected),super.update(t),this._$Do=le(e,this.renderRoot,this.renderOptions)}connectedCallback(){super.connectedCallback(),this._$Do?.setConnected(!0)}disconnectedCallback(){super.disconnectedCallback(),this._$Do?.setConnected(!1)}render(){return w}};y._$litElement$=!0,y.finalized=!0,Tt.litElementHydrateSupport?.({LitElement:y});var Ye=Tt.litElementPolyfillSupport;Ye?.({LitElement:y});(Tt.litElementVersions??=[]).push("4.2.2");function ce(r){return Object.entries(r.paths).filter(t=>t[1].get!==void 0).map(([t,{get:e}])=>Xe(r,t,e))}function Xe(r,t,e){let s=(e.parameters??[]).map(l=>Pt(r,l)),n=s.find(l=>l.name==="_format"),i=e.responses[200]?.content?.["application/x-ndjson"]?.["x-itemSchema"],o=i?Pt(r,i).properties:void 0;return{path:t,summary:e.summary??"",params:s.filter(l=>!l.name.startsWith("_")),controls:new Set(s.map(l=>l.name).filter(l=>l.startsWith("_"))),formats:(n?.schema.enum??[]).map(String),columns:Object.entries(o??{}).map(([l,h])=>({name:l,schema:Pt(r,h)})),needsToken:(e.security??[]).some(l=>Object.keys(l).length>0)}}function Pt(r,t){let e=t.$ref;if(!e)return t;let s=r;for(let n of e.slice(2).split("/"))s=s[n];return s}function Z(r){if(r.type==="array")return`list of ${r.items?Z(r.items):"anything"}`;let e=(r.anyOf?.map(Z)??[r.type??[]].flat()).filter(s=>s!=="null"&&!s.startsWith("one of"));return r.format&&e.length<=1?r.format:e.length?[...new Set(e)].join(" or "):r.enum?`one of ${r.enum.length}`:"any"}var Ct="rowstream.token",E=new URL("./",location.href.split("#")[0]),he=new URL("../",E),C=()=>sessionStorage.getItem(Ct)??"";function de(r){r?sessionStorage.setItem(Ct,r):sessionStorage.removeItem(Ct)}function v(r,t={}){let e=new Headers(t.headers);return C()&&e.set("Authorization",`Bearer ${C()}`),fetch(r,{...t,headers:e,cache:"no-store",credentials:"omit"})}async function U(r){try{return await r.json()}catch{return{status:r.status,title:r.statusText||`status ${r.status}`}}}async function tt(r,t={}){let e=await v(new URL(r,E),t);if(!e.ok)throw await U(e);return await e.json()}var M={ATTRIBUTE:1,CHILD:2,PROPERTY:3,BOOLEAN_ATTRIBUTE:4,EVENT:5,ELEMENT:6},L=r=>(...t)=>({_$litDirective$:r,values:t}),R=class{constructor(t){}get _$AU(){return this._$AM._$AU}_$AT(t,e,s){this._$Ct=t,this._$AM=e,this._$Ci=s}_$AS(t,e){return this.update(t,e)}update(t,e){return this.render(...e)}};var{I:Qe}=ae,pe=r=>r;var me=r=>r.strings===void 0,ue=()=>document.createComment(""),V=(r,t,e)=>{let s=r._$AA.parentNode,n=t===void 0?r._$AB:t._$AA;if(e===void 0){let i=s.insertBefore(ue(),n),o=s.insertBefore(ue(),n);e=new Qe(i,o,r,r.options)}else{let i=e._$AB.nextSibling,o=e._$AM,l=o!==r;if(l){let h;e._$AQ?.(r),e._$AM=r,e._$AP!==void 0&&(h=r._$AU)!==o._$AU&&e._$AP(h)}if(i!==n||l){let h=e._$AA;for(;h!==i;){let p=pe(h).nextSibling;pe(s).insertBefore(h,n),h=p}}}return e},q=(r,t,e=r)=>(r._$AI(t,e),r),Ze={},J=(r,t=Ze)=>r._$AH=t,fe=r=>r._$AH,$t=r=>{r._$AR(),r._$AA.remove()};var ge=L(class extends R{constructor(){super(...arguments),this.key=d}render(r,t){return this.key=r,t}update(r,[t,e]){return t!==this.key&&(J(r),this.key=t),e}});var et=L(class extends R{constructor(r){if(super(r),r.type!==M.PROPERTY&&r.type!==M.ATTRIBUTE&&r.type!==M.BOOLEAN_ATTRIBUTE)throw Error("The `live` directive is not allowed on child or event bindings");if(!me(r))throw Error("`live` bindings can only contain a single expression")}render(r){return r}update(r,[t]){if(t===w||t===d)return t;let e=r.element,s=r.name;if(r.type===M.PROPERTY){if(t===e[s])return w}else if(r.type===M.BOOLEAN_ATTRIBUTE){if(!!t===e.hasAttribute(s))return w}else if(r.type===M.ATTRIBUTE&&e.getAttribute(s)===t+"")return w;return J(r),t}});var $e=(r,t,e)=>{let s=new Map;for(let n=t;n<=e;n++)s.set(r[n],n);return s},be=L(class extends R{constructor(r){if(super(r),r.type!==M.CHILD)throw Error("repeat() can only be used in text expressions")}dt(r,t,e){let s;e===void 0?e=t:t!==void 0&&(s=t);let n=[],i=[],o=0;for(let l of r)n[o]=s?s(l,o):o,i[o]=e(l,o),o++;return{values:i,keys:n}}render(r,t,e){return this.dt(r,t,e).values}update(r,[t,e,s]){let n=fe(r),{values:i,keys:o}=this.dt(t,e,s);if(!Array.isArray(n))return this.ut=o,i;let l=this.ut??=[],h=[],p,m,c=0,u=n.length-1,f=0,b=i.length-1;for(;c<=u&&f<=b;)if(n[c]===null)c++;else if(n[u]===null)u--;else if(l[c]===o[f])h[f]=q(n[c],i[f]),c++,f++;else if(l[u]===o[b])h[b]=q(n[u],i[b]),u--,b--;else if(l[c]===o[b])h[b]=q(n[c],i[b]),V(r,h[b+1],n[c]),c++,b--;else if(l[u]===o[f])h[f]=q(n[u],i[f]),V(r,n[c],n[u]),u--,f++;else if(p===void 0&&(p=$e(o,f,b),m=$e(l,c,u)),p.has(l[c]))if(p.has(l[u])){let k=m.get(o[f]),yt=k!==void 0?n[k]:null;if(yt===null){let jt=V(r,n[c]);q(jt,i[f]),h[f]=jt}else h[f]=q(yt,i[f]),V(r,n[c],yt),n[k]=null;f++}else $t(n[u]),u--;else $t(n[c]),c++;for(;f<=b;){let k=V(r,h[b+1]);q(k,i[f]),h[f++]=k}for(;c<=u;){let k=n[c++];k!==null&&$t(k)}return this.ut=o,J(r,h),w}});var ts=new Intl.NumberFormat("en-US",{maximumFractionDigits:0}),we=["B","KB","MB","GB","TB"],g=r=>ts.format(r);function _(r){let t=0;for(;r>=1e3&&t<we.length-1;)r/=1e3,t+=1;return`${r<10&&t>0?r.toFixed(1):r.toFixed(0)} ${we[t]}`}function x(r){if(r<1)return"< 1 ms";if(r<1e3)return`${r.toFixed(0)} ms`;if(r<6e4)return`${(r/1e3).toFixed(1)} s`;let t=Math.floor(r/1e3);return t<3600?`${Math.floor(t/60)} min ${t%60} s`:`${Math.floor(t/3600)} h ${Math.floor(t%3600/60)} min`}var bt=class{constructor(){this.total=0;this.columns=new Map;this.#t=[];this.#e=0;this.#i=!1;this.#n=[];this.#s=0;this.#r=0}#t;#e;#i;#n;#s;#r;push(t){if(this.total+=1,this.total<=200&&this.#a(t),!this.#i){this.#t.push(t),this.#e+=t.length,this.#i=this.#t.length>=1e4||this.#e>=8388608;return}let e=this.#n.at(-1);(!e||e.lines.length>=500||e.text>8388608/16)&&(e={lines:[],text:0},this.#n.push(e)),e.lines.push(t),e.text+=t.length,this.#s+=1,this.#r+=t.length,(this.#s>=10500||this.#r>8388608)&&this.#o()}#o(){if(this.#n.length<2)return;let t=this.#n.shift();this.#s-=t.lines.length,this.#r-=t.text}#a(t){for(let[e,s]of rt(t)){let n=Math.max(this.columns.get(e)??e.length,Math.min(s.length,48));this.columns.set(e,n)}}get#l(){return this.total-this.#t.length-this.#s}get length(){return this.#t.length+(this.#l>0?1:0)+this.#s}get text(){return this.#e+this.#r}get kept(){return this.#t.length+this.#s}at(t){if(t<this.#t.length)return{row:t+1,line:this.#t[t]};let e=t-this.#t.length,s=this.#l;if(s>0){if(e===0)return{from:this.#t.length+1,to:this.#t.length+s};e-=1}let n=this.#t.length+s+e+1;for(let i of this.#n){if(e<i.lines.length)return{row:n,line:i.lines[e]};e-=i.lines.length}}cutTo(t){for(;this.total>t;){this.total-=1;let e=this.#n.at(-1);if(!e){this.#e-=this.#t.pop()?.length??0,this.#i=!1;continue}let s=e.lines.pop()?.length??0;e.text-=s,this.#r-=s,this.#s-=1,e.lines.length===0&&this.#n.pop()}}};function rt(r){let t=st(r,0);if(r[t]!=="{")return[["value",r.trim()]];let e=[];for(t=st(r,t+1);r[t]==='"';){let s=ye(r,t),n=JSON.parse(r.slice(t,s)),i=st(r,st(r,s)+1),o=es(r,i);e.push([n,r.slice(i,o).trimEnd()]),t=st(r,o+1)}return e}function st(r,t){for(;r[t]===" "||r[t]==="	";)t+=1;return t}function ye(r,t){for(t+=1;t<r.length&&r[t]!=='"';t+=1)r[t]==="\\"&&(t+=1);return t+1}function es(r,t){let e=0;for(;t<r.length;){let s=r[t];if(s==='"'){t=ye(r,t);continue}if(e===0&&(s===","||s==="}"))return t;(s==="{"||s==="[")&&(e+=1),(s==="}"||s==="]")&&(e-=1),t+=1}return t}function ve(r){let t=r[0];return t==='"'?{kind:"text",text:JSON.parse(r)}:t==="{"||t==="["?{kind:"json",text:r}:t==="n"?{kind:"null",text:"null"}:{kind:t==="t"||t==="f"?"boolean":"number",text:r}}var Se=["ndjson","sse","json-seq"],_e=1e5,ss=4e3,rs=30,K=class{constructor(t,e){this.asked=t;this.changed=e;this.state="waiting";this.why="";this.status=0;this.bytes=0;this.rows=new bt;this.text="";this.#t="";this.started=performance.now();this.stream="";this.timing=[];this.limit=0;this.#e=new AbortController;this.#i="";this.#n=0;this.#s="";this.#o=!1}#t;#e;#i;#n;#s;#r;#o;get isRows(){return this.asked.format==="ndjson"}get isRunning(){return this.state==="waiting"||this.state==="running"}get elapsed(){return(this.ended??performance.now())-this.started}cancel(){this.#o=!0,this.#e.abort()}async start(){await this.#a(this.asked.url)}async resume(){if(!this.mark)return;this.rows.cutTo(this.mark.rows);let t=new URL(this.asked.url);t.searchParams.set("_after",this.mark.next),this.#n=this.rows.total,this.#s="",this.#r=void 0,this.#o=!1,this.#e=new AbortController,this.why="",this.problem=this.report=this.ended=void 0,this.state="waiting",this.changed(),await this.#a(t)}async#a(t){let e=!1,s=async()=>{e||(e=!0,await this.#p().finally(()=>e=!1))},n=setInterval(()=>{s()},1e3);try{await this.#c(t)}catch(i){this.#l(i)}finally{clearInterval(n)}this.ended=performance.now(),this.changed(),await this.#p(this.state==="cancelled"?5:1),this.state==="unproved"&&this.#g(),this.changed()}#l(t){this.#o?this.state="cancelled":this.problem?this.state="failed":this.state==="waiting"?(this.state="failed",this.problem={title:"The server cannot be reached",detail:String(t)}):(this.state="truncated",this.why="the connection ended before the answer did")}async#c(t){let e={headers:this.asked.headers,signal:this.#e.signal},s=await v(t,e);if(this.status=s.status,!s.ok){this.problem=await U(s),this.state="failed";return}this.state="running",this.stream=s.headers.get("Rowstream-Stream")??"",this.#i=s.headers.get("Rowstream-Tag")??"",this.timing=ns(s.headers.get("Server-Timing")),this.changed(),await this.#h(s),this.#f(s)}async#h(t){let e=t.body?.getReader();if(!e)return;let s=new TextDecoder,n=performance.now();for(;;){let{done:i,value:o}=await e.read();if(i)break;this.bytes+=o.byteLength,this.asked.format!=="arrow"&&this.#u(s.decode(o,{stream:!0})),this.limit>0&&await this.#$(o.byteLength),performance.now()-n>rs&&(this.changed(),await new Promise(l=>setTimeout(l)),n=performance.now())}}#u(t){if(!this.isRows){this.text.length<_e&&(this.text+=t.slice(0,_e-this.text.length)),this.#t=(this.#t+t).slice(-ss),this.changed();return}let e=(this.#s+t).split(`
`);this.#s=e.pop()??"";for(let s of e)s&&this.#d(s);this.changed()}#d(t){if(this.#i&&t.startsWith(`{"$rowstream":"${this.#i}",`)){this.#m(JSON.parse(t));return}this.firstRow??=performance.now()-this.started,this.rows.push(t)}#m({end:t,mark:e,error:s}){let n=t?.next??e?.next;n&&(this.mark={next:n,rows:this.rows.total}),t&&(this.#r=t),s&&(this.problem=s)}#f(t){let e=`{"$rowstream":"${this.#i}","end":`;if(this.problem)this.state="failed";else if(this.#r||this.#i&&this.#t.includes(e)){let s=this.rows.total-this.#n,n=!this.#r||this.#r.rows===s;this.state=n?"complete":"truncated",n||(this.why=`${s} rows came, and the server sent ${this.#r?.rows}`)}else if(this.#i)this.state="truncated",this.why="it ended without the record of its end";else{let s=t.headers.has("Content-Length")||t.status===204;this.state=s?"complete":"unproved"}}#g(){this.report&&(this.report.state!=="complete"?(this.state="truncated",this.why=`the server says: ${this.report.state}`,this.problem=this.report.error):this.report.bytes===this.bytes&&(this.state="complete"))}async#p(t=0){for(let e=Math.max(t,1);this.stream&&e>0;e-=1){try{let s=await v(new URL(`streams/${this.stream}`,E));if(!s.ok)return;this.report=await s.json()}catch{return}if(this.changed(),t===0||this.report.state!=="running")return;await new Promise(s=>setTimeout(s,200))}}async#$(t){this.changed();for(let e=performance.now();this.limit>0&&!this.#e.signal.aborted;){let s=t/this.limit*1e3-(performance.now()-e);if(s<=0)return;await new Promise(n=>setTimeout(n,Math.min(s,200)))}}};function ns(r){return(r??"").split(",").flatMap(t=>{let e=/^\s*([\w-]+);dur=([\d.]+)/.exec(t);return e?[[e[1],Number(e[2])]]:[]})}function xe(r,t,e,s){let n=e==="ndjson"&&r.searchParams.has("_end"),i=s?{Authorization:"Bearer $TOKEN",...t}:t;return[{name:"curl",text:is(r,i,e)},{name:"JavaScript",text:n?as(r,i):os(r,i)},{name:"Python",text:n?cs(r,i):ls(r,i)}]}var Ee=r=>`'${r.replaceAll("'","'\\''")}'`;function is(r,t,e){let s=Object.entries(t).map(([i,o])=>o.includes("$TOKEN")?`  -H "${i}: ${o}"`:`  -H ${Ee(`${i}: ${o}`)}`),n=e==="arrow"?["  -o rows.arrows"]:[];return["curl -fsS --compressed",...s,...n,`  ${Ee(r.href)}`].join(` \\
`)}function Ae(r){return Object.keys(r).length===0?"":`, { headers: { ${Object.entries(r).map(([e,s])=>s.includes("$TOKEN")?`${JSON.stringify(e)}: \`${s.replace("$TOKEN","${token}")}\``:`${JSON.stringify(e)}: ${JSON.stringify(s)}`).join(", ")} } }`}function os(r,t){return`const response = await fetch(${JSON.stringify(r.href)}${Ae(t)});
if (!response.ok) throw new Error((await response.json()).detail);
// It throws where the answer is cut.
const text = await response.text();`}function as(r,t){return`const response = await fetch(${JSON.stringify(r.href)}${Ae(t)});
if (!response.ok) throw new Error((await response.json()).detail);
const record = \`{"$rowstream":"\${response.headers.get("Rowstream-Tag")}",\`;
let rest = "", end;
for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split("\\n");
  rest = lines.pop();
  for (const line of lines.filter(Boolean)) {
    if (line.startsWith(record)) end = JSON.parse(line).end ?? end;
    else console.log(JSON.parse(line)); // a row
  }
}
if (!end) throw new Error("it is not whole");`}function Re(r){return Object.keys(r).length===0?"":`, headers={${Object.entries(r).map(([e,s])=>s.includes("$TOKEN")?`${JSON.stringify(e)}: f"${s.replace("$TOKEN","{token}")}"`:`${JSON.stringify(e)}: ${JSON.stringify(s)}`).join(", ")}}`}function ls(r,t){return`import requests

response = requests.get(${JSON.stringify(r.href)}${Re(t)})
response.raise_for_status()
body = response.content  # it raises where the answer is cut`}function cs(r,t){return`import json, requests

end = None
with requests.get(${JSON.stringify(r.href)}${Re(t)}, stream=True) as response:
    response.raise_for_status()
    record = '{"$rowstream":"%s",' % response.headers["Rowstream-Tag"]
    for line in response.iter_lines():
        text = line.decode()
        if text.startswith(record):
            end = json.loads(text).get("end", end)
        elif text:
            print(json.loads(text))  # a row
if end is None:
    raise EOFError("it is not whole")`}var Mt=class extends R{render(t){return w}update(t,[e]){return Object.assign(t.element.style,e),w}},S=L(Mt);var hs=250,ds=/^process_resident_memory_bytes (\S+)$/m,Ot=class extends y{static{this.properties={request:{attribute:!1},sides:{state:!0},rows:{state:!0},problem:{state:!0},isRunning:{state:!0}}}#t=new AbortController;constructor(){super(),this.sides=[],this.rows=0,this.isRunning=!1}createRenderRoot(){return this}disconnectedCallback(){super.disconnectedCallback(),this.#t.abort()}async#e(){let t=this.request();if(!(!t||this.isRunning)){this.isRunning=!0,this.sides=[],this.problem=void 0,this.#t=new AbortController;try{for(let e of[this.#n,this.#s])this.sides=[...this.sides,await this.#i(e,t)]}catch(e){let s=this.#t.signal.aborted?"It was stopped":"It cannot be compared";this.problem=e instanceof Error?{title:s,detail:e.message}:e}this.isRunning=!1}}async#i(t,e){let s=0,n=async()=>{let o=await v(new URL("metrics",E)).catch(()=>{}),l=o?.ok?ds.exec(await o.text()):null;s=Math.max(s,Number(l?.[1]??0))};await n();let i=setInterval(()=>{n()},hs);try{return{...await t(e),server:s}}finally{clearInterval(i)}}#n=async({url:t,headers:e})=>{let s=0,n=new K({url:ke(t,"ndjson"),headers:e,format:"ndjson"},()=>{s=Math.max(s,n.rows.text)});if(this.#t.signal.addEventListener("abort",()=>n.cancel()),await n.start(),n.problem)throw n.problem;if(n.state!=="complete"&&n.state!=="unproved")throw new Error(n.why||"It was stopped.");return this.rows=n.rows.total,{name:"As rows come",firstRow:n.firstRow??n.elapsed,whole:n.elapsed,held:s}};#s=async({url:t,headers:e})=>{let s=performance.now(),n=await v(ke(t,"json"),{headers:e,signal:this.#t.signal});if(!n.ok)throw await U(n);let i=await n.text();JSON.parse(i);let o=performance.now()-s;return{name:"Read whole, then parsed",firstRow:o,whole:o,held:i.length}};render(){return a`<details class="card compare">
      <summary>Compare with reading it whole</summary>
      <p>
        Reads the answer twice: as its rows come, and as most clients do, whole and then parsed. The second holds all of
        it in this tab.
      </p>
      <div class="actions">
        ${this.isRunning?a`<button type="button" class="stop" @click=${()=>this.#t.abort()}>Stop</button>`:a`<button type="button" @click=${()=>this.#e()}>Compare</button>`}
        <span class="quiet" role="status">
          ${this.isRunning?"Reading …":this.sides.length===2?`${g(this.rows)} rows, twice`:""}
        </span>
      </div>
      ${this.problem?a`<div class="problem" role="alert"><h2>${this.problem.title}</h2><p>${this.problem.detail}</p></div>`:d}
      ${this.sides.length?this.#r():d}
    </details>`}#r(){let t=(e,s,n)=>{let i=Math.max(...this.sides.map(s),1e-9);return a`<tr>
        <th scope="row">${e}</th>
        ${this.sides.map(o=>a`<td>
            ${n(s(o))}
            <div class="bar" aria-hidden="true">
              <i class="database" ${S({flexGrow:String(s(o)/i)})}></i
              ><i ${S({flexGrow:String(1-s(o)/i)})}></i>
            </div>
          </td>`)}
      </tr>`};return a`<table>
      <thead>
        <tr>
          <td></td>
          ${this.sides.map(({name:e})=>a`<th scope="col">${e}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${t("First row after",({firstRow:e})=>e,x)}
        ${t("All rows after",({whole:e})=>e,x)}
        ${t("Text held in this tab",({held:e})=>e,_)}
        ${this.sides.every(({server:e})=>e>0)?t("Memory of the server, at most",({server:e})=>e,_):d}
      </tbody>
    </table>`}};function ke(r,t){let e=new URL(r);return e.searchParams.set("_format",t),e.searchParams.delete("_follow"),t!=="ndjson"&&e.searchParams.delete("_end"),e}customElements.define("rs-compare",Ot);var B=29,Te=8,Pe=7.9,Ce=26,Ut=class extends y{static{this.properties={rows:{attribute:!1},total:{attribute:!1},follows:{attribute:!1},picked:{state:!0}}}#t=new ResizeObserver(()=>this.requestUpdate());constructor(){super(),this.picked=-1}createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#t.observe(this)}disconnectedCallback(){super.disconnectedCallback(),this.#t.disconnect()}get#e(){return this.querySelector(".scroller")}updated(){let t=this.#e;this.follows&&t&&(t.scrollTop=t.scrollHeight)}render(){let t=[...this.rows.columns],e=this.#e,[s,n]=[e?.scrollTop??0,e?.clientHeight||600],i=Math.max(0,Math.min(Math.floor(s/B),this.rows.length)-Te),o=Math.min(this.rows.length,Math.ceil((s+n)/B)+Te),l=[];for(let c=i;c<o;c+=1){let u=this.rows.at(c);u&&l.push(this.#i(c,u,t))}let h=Math.max(5,String(this.rows.total).length+2)*Pe+Ce,p=t.map(([,c])=>Math.round(c*Pe+Ce)),m=p.reduce((c,u)=>c+u,h);return a`<div
      class="scroller"
      tabindex="0"
      role="region"
      aria-label="Rows. Arrow keys choose a row, Enter shows it."
      @scroll=${()=>this.requestUpdate()}
      @keydown=${this.#r}
    >
      <div class="sizer" ${S({height:`${(this.rows.length+1)*B}px`})}>
        <table
          aria-rowcount=${this.rows.total+1}
          ${S({top:`${i*B}px`,minWidth:`${m}px`})}
        >
          <colgroup>
            <col ${S({width:`${h}px`})} />
            ${p.map(c=>a`<col ${S({width:`${c}px`})} />`)}
          </colgroup>
          <thead>
            <tr aria-rowindex="1">
              <th scope="col" class="number">#</th>
              ${t.map(([c])=>a`<th scope="col" title=${c}>${c}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${l}
          </tbody>
        </table>
      </div>
    </div>`}#i(t,e,s){if("from"in e){let i=`rows ${g(e.from)} to ${g(e.to)} came by and are not kept`;return a`<tr class="gap"><td colspan=${s.length+1}><span>${i}</span></td></tr>`}let n=new Map(rt(e.line));return a`<tr
      class=${t===this.picked?"picked":""}
      aria-rowindex=${e.row+1}
      @click=${()=>this.#n(t)}
      @dblclick=${()=>this.#s(t)}
    >
      <th scope="row" class="number">${g(e.row)}</th>
      ${s.map(([i])=>ps(n.get(i)))}
    </tr>`}#n(t){this.picked=Math.max(0,Math.min(t,this.rows.length-1));let e=this.#e;if(!e)return;let s=this.picked*B,n=e.scrollTop+e.clientHeight-3*B;s<e.scrollTop?e.scrollTop=s:s>n&&(e.scrollTop+=s-n)}#s(t){let e=this.rows.at(t);!e||"from"in e||this.dispatchEvent(new CustomEvent("open-row",{detail:e,bubbles:!0}))}#r(t){let e=Math.floor((this.#e?.clientHeight??0)/B)-2,n={ArrowDown:1,ArrowUp:-1,PageDown:e,PageUp:-e,Home:-1/0,End:1/0}[t.key];if(t.key==="Enter")this.#s(this.picked);else if(n!==void 0)this.#n(Math.max(-1,this.picked)+n);else return;t.preventDefault()}};function ps(r){if(r===void 0)return a`<td></td>`;let{kind:t,text:e}=ve(r),s=e.length>300?`${e.slice(0,300)}…`:e;return a`<td class=${t} title=${e.length>30?s:d}>${s}</td>`}customElements.define("rs-table",Ut);var it=[0,4e6,1e6,25e4,5e4,1e4],Me=["pool","database","encode","client"],Oe={waiting:"Waiting for the first row",running:"Streaming",complete:"Complete",unproved:"Ended, not proved whole",truncated:"Truncated",failed:"Failed",cancelled:"Cancelled"},us={ndjson:"NDJSON (table)",json:"JSON",csv:"CSV",sse:"Server-sent events","json-seq":"JSON text sequence",arrow:"Arrow"},Lt=class extends y{static{this.properties={endpoint:{attribute:!1},query:{attribute:!1},isFollowing:{state:!0},isPaused:{state:!0},speed:{state:!0},language:{state:!0},said:{state:!0}}}#t=!1;#e=0;constructor(){super(),this.isFollowing=this.isPaused=!1,this.speed=this.language=0,this.said=""}createRenderRoot(){return this}willUpdate(t){let e=t.get("endpoint");e&&e.path!==this.endpoint.path&&this.#i()}disconnectedCallback(){super.disconnectedCallback(),this.#i()}#i(){this.run?.cancel(),this.run=void 0,this.isFollowing=this.isPaused=!1,this.said=""}#n=()=>{this.#t||(this.#t=!0,requestAnimationFrame(()=>{this.#t=!1,this.requestUpdate()}))};get#s(){let{formats:t}=this.endpoint,e=this.query.get("_format")??"";return t.includes(e)?e:t.includes("ndjson")?"ndjson":t[0]??""}get#r(){return this.endpoint.controls.has("_follow")&&this.query.get("_follow")==="1"}#o(){let t=this.endpoint.path,e=new URLSearchParams,s={};for(let o of this.endpoint.params){let l=this.query.get(o.name)??"";if(o.in==="path")t=t.replace(`{${o.name}}`,encodeURIComponent(l));else{if(l==="")continue;if(o.in==="header")s[o.name]=l;else for(let h of ms(o,l))e.append(o.name,h)}}let n=this.#s;n&&e.set("_format",n),Se.includes(n)&&this.endpoint.controls.has("_end")&&e.set("_end","1"),this.#r&&e.set("_follow","1");let i=new URL(t.replace(/^\//,"./"),he);return i.search=e.toString(),{url:i,headers:s}}#a(t,e){let s=new URLSearchParams(this.query);e===""?s.delete(t):s.set(t,e),this.query=s;let n=s.toString();history.replaceState(null,"",`#/endpoints${this.endpoint.path}${n&&`?${n}`}`)}async#l(t){t?.preventDefault(),this.run?.cancel(),this.isPaused=!1;let{url:e,headers:s}=this.#o();this.run=new K({url:e,headers:s,format:this.#s},this.#n),this.isFollowing=this.#r,await this.#c(this.run,this.run.start())}async#c(t,e){t.limit=it[this.speed]??0,this.said="Running",this.requestUpdate(),await e,t===this.run&&(this.said=`${Oe[t.state]}, ${g(t.rows.total)} rows. ${t.problem?.detail??t.why}`)}#h(t){this.speed=Number(t.target.value),this.run&&(this.run.limit=it[this.speed]??0)}#u(){this.isPaused=!this.isPaused,this.#e=this.run?.rows.total??0}async#d(t,e){await navigator.clipboard.writeText(e),this.said=`${t} copied`}render(){let{path:t,summary:e,needsToken:s}=this.endpoint;return a`<article aria-labelledby="title">
      <a class="back" href="#/endpoints">← All endpoints</a>
      <header class="title">
        <h1 id="title"><span class="method">GET</span> ${fs(t)}</h1>
        <button class="quiet" @click=${()=>this.#d("Link",location.href)}>Copy link</button>
      </header>
      ${e?a`<p class="summary">${e}</p>`:d}
      ${s&&!C()?a`<p class="note">It needs a token, which you have not entered.</p>`:d}
      ${this.#m()} ${this.run?this.#g(this.run):d} ${this.#w()}
      ${this.#y()} ${this.#v()}
      <p class="spoken" role="status" aria-live="polite">${this.said}</p>
    </article>`}#m(){let{params:t,formats:e,controls:s}=this.endpoint,n=this.run?.isRunning??!1;return a`<form class="card" @submit=${this.#l}>
      ${t.length?a`<div class="fields">${be(t,i=>i.name,i=>this.#f(i))}</div>`:a`<p class="quiet">It takes no parameters.</p>`}
      <div class="actions">
        ${e.length>1?a`<label class="inline"
              ><span>Format</span>
              <select @change=${i=>this.#a("_format",i.target.value)}>
                ${e.map(i=>a`<option value=${i} ?selected=${i===this.#s}>
                    ${us[i]??i}
                  </option>`)}
              </select></label
            >`:d}
        ${s.has("_follow")?a`<label class="inline check"
              ><input
                type="checkbox"
                .checked=${et(this.#r)}
                @change=${i=>this.#a("_follow",i.target.checked?"1":"")}
              /><span>Live tail</span></label
            >`:d}
        <span class="grow"></span>
        ${n?a`<button type="button" class="stop" @click=${()=>this.run?.cancel()}>Cancel</button>`:a`<button type="submit" class="run">Run</button>`}
        <button type="button" @click=${this.#_} title="Save all of it to a file">Download</button>
      </div>
    </form>`}#f(t){let{name:e,schema:s,required:n,description:i}=t,o=`param-${e}`,l=this.query.get(e)??"",h=s.default===void 0||s.default===null?"":String(s.default),p=u=>this.#a(e,u.target.value),m=s.enum??s.items?.enum??(s.type==="boolean"?[!0,!1]:void 0),c=m&&s.type!=="array";return a`<div class="field">
      <label for=${o}
        >${e}${n?a`<span class="required" title="required">*</span>`:d}
        <span class="type">${Z(s)}</span></label
      >
      ${c?a`<select id=${o} ?required=${n} aria-describedby="${o}-more" @change=${p}>
            <option value="" ?selected=${l===""}>${h||(n?"choose":"any")}</option>
            ${m.map(u=>a`<option value=${String(u)} ?selected=${l===String(u)}>${u}</option>`)}
          </select>`:a`<input
            id=${o}
            .value=${et(l)}
            ?required=${n}
            placeholder=${h||gs(t)}
            inputmode=${s.type==="integer"?"numeric":"text"}
            autocomplete="off"
            spellcheck="false"
            aria-describedby="${o}-more"
            @input=${p}
          />`}
      <small id="${o}-more">${$s(t,i)}</small>
    </div>`}#g(t){let e=t.elapsed,s=e>0?t.rows.total/e*1e3:0;return a`<section class="card result" aria-label="Result">
      <div class="progress">
        <span class="state ${t.state}" data-state=${t.state}>${Oe[t.state]}</span>
        ${t.isRows?nt("rows",g(t.rows.total)):d}
        ${t.isRows?nt("rows/s",g(s)):d} ${nt("received",_(t.bytes))}
        ${nt("time",x(e))}
        ${t.firstRow===void 0?d:nt("first row",x(t.firstRow))}
        <span class="grow"></span>
        ${this.#p(t)}
      </div>
      ${t.why?a`<p class="warning" role="alert">This answer is not whole: ${t.why}.</p>`:d}
      ${t.state==="unproved"?a`<p class="note">
            Nothing tells whether this was the end of it: the answer was compressed on its way, and its format has no
            record at the end. NDJSON has one.
          </p>`:d}
      ${t.problem?bs(t.problem):d} ${ws(t)} ${this.#$(t)}
    </section>`}#p(t){let e=t.mark&&!t.isRunning&&t.state!=="complete";return a`${t.isRunning&&t.isRows?a`<button class="quiet" aria-pressed=${this.isPaused} @click=${this.#u}>
            ${this.isPaused?`Go on (${g(t.rows.total-this.#e)} new)`:"Pause"}
          </button>`:d}
      ${e?a`<button class="quiet" @click=${()=>this.#c(t,t.resume())}>
            Resume after row ${g(t.mark.rows)}
          </button>`:d}
      ${t.isRows?a`<label class="inline check"
            ><input
              type="checkbox"
              .checked=${et(this.isFollowing)}
              @change=${s=>this.isFollowing=s.target.checked}
            /><span>Keep the last row in sight</span></label
          >`:d}
      <label class="inline" title="Be a slow client: the server and the database wait for you"
        ><span>Read at</span
        ><input
          type="range"
          min="0"
          max=${it.length-1}
          .value=${et(String(this.speed))}
          aria-valuetext=${Ue(this.speed)}
          @input=${this.#h}
        /><output>${Ue(this.speed)}</output></label
      >`}#$(t){if(t.isRows){if(t.rows.total===0)return t.state==="complete"?a`<p class="empty">There are no rows.</p>`:d;let s=this.isPaused?this.#e:t.rows.total;return a`<rs-table
        .rows=${t.rows}
        .total=${s}
        .follows=${this.isFollowing&&!this.isPaused}
        @open-row=${this.#b}
      ></rs-table>`}if(t.asked.format==="arrow")return a`<p class="empty">Arrow is binary: download it to read it.</p>`;if(!t.text)return d;let e=t.bytes<=t.text.length*3&&t.text.length<1e5;return a`<pre class="text" tabindex="0" role="region" aria-label="The answer">${t.text}</pre>
      ${e?d:a`<p class="quiet">These are the first letters of ${_(t.bytes)}.</p>`}`}#b(t){let{row:e,line:s}=t.detail,n=this.querySelector("dialog")??document.createElement("dialog");n.replaceChildren(),n.ariaLabel=`Row ${e}`;let i=document.createElement("h2");i.textContent=`Row ${g(e)}`;let o=document.createElement("dl");for(let[h,p]of rt(s)){let[m,c]=[document.createElement("dt"),document.createElement("dd")];[m.textContent,c.textContent]=[h,p],o.append(m,c)}let l=document.createElement("button");l.textContent="Close",l.onclick=()=>n.close(),n.append(i,o,l),this.append(n),n.showModal()}#w(){let{url:t,headers:e}=this.#o(),s=xe(t,e,this.#s,C()!==""),{name:n,text:i}=s[this.language];return a`<section class="card code" aria-label="The same request elsewhere">
      <div class="tabs" role="group" aria-label="Language">
        ${s.map(({name:o},l)=>a`<button
            class="tab"
            aria-pressed=${l===this.language}
            @click=${()=>this.language=l}
          >
            ${o}
          </button>`)}
        <span class="grow"></span>
        <button class="quiet" @click=${()=>this.#d(n,i)}>Copy</button>
      </div>
      <pre tabindex="0" role="region" aria-label=${n}>${i}</pre>
    </section>`}#y(){let{formats:t}=this.endpoint;if(!t.includes("ndjson")||!t.includes("json"))return d;let e=()=>this.querySelector("form")?.reportValidity()?this.#o():void 0;return ge(this.endpoint.path,a`<rs-compare .request=${e}></rs-compare>`)}#v(){let{columns:t}=this.endpoint;return t.length===0?d:a`<details class="card">
      <summary>${t.length} columns</summary>
      <dl class="columns">
        ${t.map(({name:e,schema:s})=>a`<dt>${e}</dt><dd>${Z(s)}</dd>`)}
      </dl>
    </details>`}#_=async()=>{if(!this.querySelector("form")?.reportValidity())return;let{url:e,headers:s}=this.#o();e.searchParams.delete("_end"),e.searchParams.delete("_follow");let n=this.endpoint.path.replaceAll(/[^\w-]+/g,"-").replaceAll(/^-+|-+$/g,"")||"rows";this.endpoint.controls.has("_download")&&e.searchParams.set("_download",n);let i=document.createElement("a");if(i.download=`${n}.${this.#s||"txt"}`,i.href=e.href,C()||Object.keys(s).length>0){this.said="Downloading";try{let o=await v(e,{headers:s});if(!o.ok)throw new Error(`status ${o.status}`);i.href=URL.createObjectURL(await o.blob())}catch(o){this.said=`The download failed, nothing is saved: ${String(o)}`;return}}i.click(),this.said=`${i.download} is downloaded by the browser`}};function ms(r,t){return r.schema.type==="array"?t.split(",").map(e=>e.trim()):[t]}function fs(r){return r.split(/(\{[^}]*\})/).map(t=>t.startsWith("{")?a`<em>${t}</em>`:t)}function gs({schema:r,required:t}){let e={date:"2026-12-31","date-time":"2026-12-31T12:00:00Z",uuid:"00000000-0000-0000-0000-000000000000",duration:"PT10S"};return r.type==="array"?"1,2,3":e[r.format??""]??(t?"":"not given")}function $s({schema:r,in:t,name:e},s=""){let n=[r.minimum===void 0?"":`from ${r.minimum}`,r.maximum===void 0?"":`to ${r.maximum}`],i=t==="query"?"":t==="path"?"in the path":`header ${e}`;return[s,n.filter(Boolean).join(" "),i].filter(Boolean).join(" · ")}function nt(r,t){return a`<span class="fact"><b>${t}</b> <span>${r}</span></span>`}var Ue=r=>it[r]?`${_(it[r])}/s`:"full speed";function bs({title:r,status:t,code:e,detail:s,hint:n,sqlstate:i}){return a`<div class="problem" role="alert">
    <h2>${t?a`<span>${t}</span>`:d} ${r??e??"It failed"}</h2>
    ${s?a`<p>${s}</p>`:d} ${n?a`<p class="hint">${n}</p>`:d}
    <p class="quiet">
      ${e?a`<a href=${new URL(`errors/${e}`,E).href} target="_blank" rel="noreferrer">What ${e} means</a>`:d}
      ${i?a` SQLSTATE ${i}`:d}
    </p>
  </div>`}function ws(r){let t=Object.entries(r.report?.ms??{}).filter(([i])=>Me.includes(i)),e=t.length?t:r.timing.filter(([i])=>Me.includes(i)),s=e.reduce((i,[,o])=>i+o,0),n=r.report&&r.isRunning?`The server has sent ${_(r.report.bytes)}.`:"";return s===0?n?a`<p class="quiet phases">${n}</p>`:d:a`<div class="phases">
    <div class="bar" aria-hidden="true">
      ${e.map(([i,o])=>a`<i class=${i} ${S({flexGrow:String(o/s)})}></i>`)}
    </div>
    <p class="quiet">
      ${t.length?"Where the server's time went:":"Until the first row:"}
      ${e.map(([i,o])=>a`<span class="key ${i}">${i} ${x(o)}</span> `)} ${n}
    </p>
  </div>`}customElements.define("rs-endpoint",Lt);var ys=2e3,vs=15*6e4,_s=2*6e4,Ss=5,Ne="rowstream_request_duration_seconds_bucket",ot=["pool","database","encode","client"],$=[],Le=0,Es=/^(rowstream_(requests|rows|sent_bytes|phase_seconds)_total|rowstream_(streams_running|permits|permits_max|pool_(used|max|waiting|idle)|connections|host_in_flight|request_duration_seconds_bucket)|process_(resident_memory_bytes|cpu_seconds_total))(?:\{(.*)\})? (\S+)$/;function xs(r){let t=new Map;for(let e of r.split(`
`)){let s=Es.exec(e);if(!s)continue;let[n,i,o]=[s[1],s.at(-2)??"",Number(s.at(-1))],l=t.get(n)??new Map;t.set(n,l.set(i,o))}return t}function As({series:r},{at:t,values:e}){let s=new Map;return e.forEach((n,i)=>{let{name:o,labels:l}=r[i];n!==null&&s.set(o,(s.get(o)??new Map).set(l,n))}),{at:t,isWhole:!1,metrics:s}}function qe(r){let t=$.at(-1)?.at??0;$.at(-1)?.metrics.delete(Ne),$.push(...r.filter(({at:e})=>e>t)),$=$.filter(({at:e})=>e>$.at(-1).at-vs)}var A=(r,t)=>new RegExp(`(?:^|,)${t}="((?:[^"\\\\]|\\\\.)*)"`).exec(r)?.[1]??"";function F(r,t,e=()=>!0){let s=0;for(let[n,i]of r.metrics.get(t)??[])e(n)&&(s+=i);return s}function wt(r,t,e=()=>!0){let s=$[r],n=$.slice(Math.max(0,r-Ss),r).find(e)??s,i=(s.at-n.at)/1e3;return i>0?Math.max(0,t(s)-t(n))/i:0}var qt=class extends y{static{this.properties={failure:{state:!0},refused:{state:!0},streams:{state:!0}}}#t=0;#e=!1;createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#i().then(()=>this.#n()),this.#t=setInterval(()=>{this.#n()},ys)}disconnectedCallback(){super.disconnectedCallback(),clearInterval(this.#t)}async#i(){this.#e=!0;let t=await tt(`history?after=${$.at(-1)?.at??0}`).catch(()=>{});t&&(Le=t.now-Date.now(),qe(t.moments.map(e=>As(t,e)))),this.#e=!1}async#n(){if(!this.#e){this.#e=!0;try{let t=await v(new URL("metrics",E),{headers:{Accept:"text/plain"}});if(!t.ok){this.failure=await U(t);return}let e=xs(await t.text());qe([{at:Date.now()+Le,isWhole:!0,metrics:e}]),this.streams=await tt("streams").catch(()=>{}),this.failure=void 0}catch(t){this.failure={title:"The server cannot be reached",detail:String(t)}}finally{this.#e=!1}this.requestUpdate()}}async#s(t){let e=await v(new URL(`streams/${t}`,E),{method:"DELETE"}),s=e.ok||e.status===404||e.status===409;this.refused=s?void 0:await U(e),await this.#n()}render(){return a`<article aria-labelledby="title">
      <header class="title"><h1 id="title">Live</h1></header>
      <p class="summary">The last 15 minutes, and now; asked for every two seconds.</p>
      ${this.failure?this.#r(this.failure):d} ${$.length?this.#a():d}
      ${this.refused?this.#r(this.refused):d}
      ${this.streams?.streams.length?this.#o(this.streams):d}
    </article>`}#r({status:t,title:e,detail:s}){let n=t===404?"With `admin_listen` the metrics are at that port alone, and so is this view.":t===401||t===403?"Enter a token that [admin] names in rowstream.toml.":"";return a`<div class="card problem" role="alert">
      <h2>${t?a`<span>${t}</span>`:d} ${e}</h2>
      <p>${s}</p>
      <p class="hint">${n}</p>
    </div>`}#o({streams:t,more:e}){return a`<section class="card live" aria-label="Each stream in flight" tabindex="0">
      <table>
        <thead>
          <tr>
            <th scope="col">Stream</th>
            <th scope="col">Format</th>
            <th scope="col" class="number">Runs for</th>
            <th scope="col" class="number">Rows</th>
            <th scope="col" class="number">Sent</th>
            <th scope="col">Where the time went</th>
            <th scope="col"><span class="quiet">Stop</span></th>
          </tr>
        </thead>
        <tbody>
          ${t.map(({id:s,endpoint:n,format:i,started:o,rows:l,bytes:h,ms:p})=>a`<tr>
              <th scope="row">${n}</th>
              <td>${i}</td>
              <td class="number">${x(Math.max(0,Date.now()-Date.parse(o)))}</td>
              <td class="number">${g(l)}</td>
              <td class="number">${_(h)}</td>
              <td>${He(ot.map(m=>(p[m]??0)/1e3))}</td>
              <td>
                <button class="stop" aria-label="Stop the stream ${s} of ${n}" @click=${()=>this.#s(s)}>
                  Stop
                </button>
              </td>
            </tr>`)}
        </tbody>
      </table>
      ${e?a`<p class="quiet">and ${g(e)} more</p>`:d}
    </section>`}#a(){let t=$.at(-1),e=p=>A(p,"endpoint")!=="/_rowstream/",s=p=>e(p)&&A(p,"outcome")==="complete",n=p=>e(p)&&A(p,"outcome")!=="complete",i=(p,m=e)=>c=>wt(c,u=>F(u,p,m)),o=p=>m=>F($[m],p),l=p=>wt(p,m=>F(m,"process_cpu_seconds_total"))*100,h=F(t,"rowstream_permits_max");return a`<div class="charts">
        ${O("Streams in flight",o("rowstream_streams_running"),g,`of ${g(h)} at most`)}
        ${O("Rows per second",i("rowstream_rows_total"),g)}
        ${O("Sent per second",i("rowstream_sent_bytes_total"),_)}
        ${O("Requests per second",i("rowstream_requests_total",s),Ht,"that were complete")}
        ${O("Other ends per second",i("rowstream_requests_total",n),Ht,"not complete")}
        ${O("Memory",o("process_resident_memory_bytes"),_,"resident")}
        ${O("Processor",l,p=>`${p.toFixed(0)} %`,"of one core")}
        ${Nt(t,"rowstream_pool_used").map(ks)} ${Nt(t,"rowstream_host_in_flight").map(Rs)}
      </div>
      ${Cs(t)}`}},Nt=(r,t)=>[...r.metrics.get(t)?.keys()??[]];function Rs(r){let t=e=>$[e].metrics.get("rowstream_host_in_flight")?.get(r)??0;return O(`Host ${A(r,"host")}`,t,g,`in flight, of ${A(r,"source")}`)}function ks(r){let t=(n,i=$.length-1)=>$[i].metrics.get(n)?.get(r)??0,e=t("rowstream_pool_waiting"),s=`of ${t("rowstream_pool_max")}, ${e} waiting`;return O(`Pool of ${A(r,"source")}`,n=>t("rowstream_pool_used",n),g,s)}var Ht=r=>r<10?r.toFixed(1):g(r);function O(r,t,e,s=""){let n=$.map((c,u)=>t(u)),i=Math.max(...n,1e-9),o=$.at(-1).at,l=Math.max(_s,o-$[0].at),h=c=>(200-200*(o-$[c].at)/l).toFixed(1),p=n.map((c,u)=>`${h(u)},${(46-c/i*42).toFixed(1)}`),m=`${h(0)},48 ${p.join(" ")} 200,48`;return a`<section class="card chart" aria-label=${r}>
    <h2>${r}</h2>
    <p><b>${e(n.at(-1)??0)}</b> <span class="quiet">${s}</span></p>
    <svg viewBox="0 0 200 48" preserveAspectRatio="none" role="img" aria-label="at most ${e(i)}">
      ${ne`<polygon points=${m}></polygon><polyline points=${p.join(" ")}></polyline>`}
    </svg>
    <p class="quiet">at most ${e(Math.max(...n))}</p>
  </section>`}function Ts(r,t){let e=[...r.metrics.get(Ne)??[]].filter(([n])=>A(n,"endpoint")===t).map(([n,i])=>({bound:Number(A(n,"le").replace("+Inf","Infinity")),count:i})).sort((n,i)=>n.bound-i.bound),s=e.at(-1)?.count??0;return s?e.find(({count:n})=>n>=.95*s)?.bound:void 0}var Ps=r=>r===void 0?"":r===1/0?"longer":x(r*1e3);function Cs(r){let t=Nt(r,"rowstream_streams_running"),e=$.length-1,s=i=>i.isWhole,n=t.map(i=>{let o=A(i,"endpoint"),l=c=>A(c,"endpoint")===o,h=c=>wt(e,u=>F(u,c,l),s),p=c=>u=>l(u)&&A(u,"phase")===c,m=ot.map(c=>wt(e,u=>F(u,"rowstream_phase_seconds_total",p(c)),s));return{path:o,running:F(r,"rowstream_streams_running",l),of:h,phases:m,most:Ts(r,o)}});return n.sort((i,o)=>(o.most??-1)-(i.most??-1)),a`<section class="card live" aria-label="Endpoints now" tabindex="0">
    <table>
      <thead>
        <tr>
          <th scope="col">Endpoint</th>
          <th scope="col" class="number">Streams</th>
          <th scope="col" class="number">Requests/s</th>
          <th scope="col" class="number">Rows/s</th>
          <th scope="col" class="number">95 % within</th>
          <th scope="col">Where the time goes</th>
        </tr>
      </thead>
      <tbody>
        ${n.map(({path:i,running:o,of:l,phases:h,most:p})=>a`<tr>
            <th scope="row"><a href="#/endpoints${i}">${i}</a></th>
            <td class="number">${g(o)}</td>
            <td class="number">${Ht(l("rowstream_requests_total"))}</td>
            <td class="number">${g(l("rowstream_rows_total"))}</td>
            <td class="number">${Ps(p)}</td>
            <td>${He(h)}</td>
          </tr>`)}
      </tbody>
    </table>
    <p class="quiet">${ot.map(i=>a`<span class="key ${i}">${i}</span>`)}</p>
  </section>`}function He(r){let t=r.reduce((s,n)=>s+n,0);if(t===0)return d;let e=r.map((s,n)=>`${ot[n]} ${x(s*1e3)}`).join(", ");return a`<div class="bar" role="img" aria-label=${e}>
    ${r.map((s,n)=>a`<i class=${ot[n]} ${S({flexGrow:String(s/t)})}></i>`)}
  </div>`}customElements.define("rs-live",qt);var Ie="rowstream.theme",It=["auto","light","dark"],Dt=class extends y{constructor(){super();this.query=new URLSearchParams;this.search=this.path="",this.theme=localStorage.getItem(Ie)??"auto",this.#t(),this.#s(),addEventListener("hashchange",()=>this.#t()),this.#e()}static{this.properties={endpoints:{state:!0},failure:{state:!0},search:{state:!0},path:{state:!0},theme:{state:!0}}}createRenderRoot(){return this}#t(){let[e="",s=""]=location.hash.slice(1).split(/\?(.*)/s);this.query=new URLSearchParams(s),this.path=Ms(e)||"/endpoints",this.requestUpdate()}async#e(){try{this.endpoints=ce(await tt("openapi.json")),this.failure=void 0}catch(e){let s=!(e instanceof Error);this.failure=s?e:{title:"The server cannot be reached",detail:e.message}}}get#i(){return this.endpoints?.find(({path:e})=>this.path===`/endpoints${e}`)}#n(){this.theme=It[(It.indexOf(this.theme)+1)%It.length],localStorage.setItem(Ie,this.theme),this.#s()}#s(){document.documentElement.dataset.theme=this.theme}updated(){let e=this.#i;document.title=e?`${e.path} · Rowstream`:"Rowstream console"}render(){let e=this.#i;return a`<a class="skip" href="#main" @click=${this.#h}>Skip the navigation</a>
      <header class="top">
        <a class="brand" href="#/endpoints">${Os} Rowstream</a>
        <a class="tab" href="#/endpoints" aria-current=${this.path==="/live"?d:"page"}>Endpoints</a>
        <a class="tab" href="#/live" aria-current=${this.path==="/live"?"page":d}>Live</a>
        <span class="grow"></span>
        <button class="quiet" @click=${this.#n}>Theme: ${this.theme}</button>
        <button class="quiet" @click=${this.#a}>${C()?"Token ✓":"Token"}</button>
      </header>
      ${this.path==="/live"?a`<div class="page wide"><main id="main" tabindex="-1"><rs-live></rs-live></main></div>`:a`<div class="page ${e?"has-chosen":""}">
            <nav aria-label="Endpoints">${this.#r()}</nav>
            <main id="main" tabindex="-1">
              ${e?a`<rs-endpoint .endpoint=${e} .query=${this.query}></rs-endpoint>`:this.#o()}
            </main>
          </div>`}
      ${this.#l()}`}#r(){if(this.failure)return a`<div class="problem" role="alert">
        <h2>${this.failure.title}</h2>
        <p>${this.failure.detail}</p>
        <button @click=${()=>this.#e()}>Try again</button>
      </div>`;let e=this.search.toLowerCase().split(/\s+/),s=(this.endpoints??[]).filter(({path:n,summary:i})=>e.every(o=>`${n} ${i}`.toLowerCase().includes(o)));return a`<input
        type="search"
        placeholder="Search endpoints"
        aria-label="Search endpoints"
        .value=${this.search}
        @input=${n=>this.search=n.target.value}
      />
      <ul>
        ${s.map(({path:n,summary:i,needsToken:o})=>a`<li>
            <a href="#/endpoints${n}" aria-current=${this.path===`/endpoints${n}`?"page":d}>
              <code>${n}</code>${o?a`<span class="lock" title="needs a token">token</span>`:d}
              ${i?a`<small>${i}</small>`:d}
            </a>
          </li>`)}
      </ul>
      ${this.endpoints&&s.length===0?a`<p class="quiet">${this.search?"None is called so.":"There is none that you may call."}</p>`:d}`}#o(){let e=this.endpoints&&this.path!=="/endpoints";return a`<div class="welcome">
      <h1>${e?"There is no such endpoint":"SQL as streaming HTTP endpoints"}</h1>
      <p>
        ${e?"It may need a token, or it is gone. Choose another one.":"Choose an endpoint, fill in its parameters and run it: rows are shown as they come, in constant memory."}
      </p>
    </div>`}#a(){this.querySelector("dialog.token").showModal()}#l(){return a`<dialog class="token" aria-labelledby="token-title">
      <form method="dialog" @submit=${this.#c}>
        <h2 id="token-title">Your token</h2>
        <p>It is sent as a bearer token, and kept by this tab until you close it.</p>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" .value=${C()} />
        <div class="actions">
          <span class="grow"></span>
          <button type="button" @click=${()=>this.querySelector("dialog.token").close()}>
            Cancel
          </button>
          <button class="run">Use it</button>
        </div>
      </form>
    </dialog>`}#c(e){e.preventDefault(),de(this.querySelector("#token").value.trim()),this.querySelector("dialog.token").close(),this.#e(),this.requestUpdate()}#h(e){e.preventDefault(),this.querySelector("main").focus()}};function Ms(r){try{return decodeURI(r)}catch{return r}}var Os=a`<svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
  <rect x="2" y="4" width="20" height="3.4" rx="1.7" />
  <rect x="6" y="10.3" width="16" height="3.4" rx="1.7" opacity=".75" />
  <rect x="10" y="16.6" width="12" height="3.4" rx="1.7" opacity=".5" />
</svg>`;customElements.define("rs-app",Dt);
/*! Bundled license information:

@lit/reactive-element/css-tag.js:
  (**
   * @license
   * Copyright 2019 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

@lit/reactive-element/reactive-element.js:
lit-html/lit-html.js:
lit-element/lit-element.js:
lit-html/directive.js:
lit-html/directives/repeat.js:
  (**
   * @license
   * Copyright 2017 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/is-server.js:
  (**
   * @license
   * Copyright 2022 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/directive-helpers.js:
lit-html/directives/live.js:
  (**
   * @license
   * Copyright 2020 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/directives/keyed.js:
  (**
   * @license
   * Copyright 2021 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)
*/
